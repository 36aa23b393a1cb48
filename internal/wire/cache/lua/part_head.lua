-- part_head.lua: read how an entry begins, the part of several scripts.
-- KEYS[1] entry string {<cache>:<key>}:cache, as doc.go says
-- Uses nothing
-- Returns {known: it is an entry; kind, fresh, ends, id, owner, size: its head, or that of none}
local head = redis.call('GETRANGE', KEYS[1], 0, 46)
local known = #head == 47 and string.byte(head) == 1
local kind, fresh, delta, ends, id, owner, size = '-', 0, 0, 0, '', '', 0
if known then
  kind = string.sub(head, 2, 2)
  fresh, delta, ends, id, owner, size = struct.unpack('>I8I8I8c8c8I4', head, 4)
  if not string.find('-vn', kind, 1, true) or redis.call('STRLEN', KEYS[1]) < 47 + size then
    known, kind, fresh, ends, id, owner, size = false, '-', 0, 0, '', '', 0
  end
end
