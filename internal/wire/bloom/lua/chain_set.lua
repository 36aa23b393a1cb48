-- chain_set.lua: add items to a chain of one link that has room for them, given the positions of their bits.
-- KEYS[1] chain  string  the client's key; as chain.go says
-- ARGV[1] length integer of the string for which the positions are, in bytes
-- ARGV[2] link   bytes   its link, as it was read
-- ARGV[3..] positions integer of each item as many as the link has hashes, as of SETBIT
-- Returns {status 1 done|-4 it has another link, or more, or no room: nothing is done, of each item 1 new|0 not}
local tail = redis.call('GETRANGE', KEYS[1], -105, -1)
local length = tonumber(ARGV[1])
if #tail < 105 or redis.call('STRLEN', KEYS[1]) ~= length or string.sub(tail, -8) ~= 'RdBloom2' or struct.unpack('<I4', tail, 62) ~= 1
  or string.sub(tail, 1, 16) ~= string.sub(ARGV[2], 1, 16) or string.sub(tail, 25, 53) ~= string.sub(ARGV[2], 25) then
  return {-4}
end
local size, k, entries, all = struct.unpack('<I8', tail, 17), struct.unpack('<I4', tail, 41), struct.unpack('<I8', tail, 45), struct.unpack('<I8', tail, 54)
local items = (#ARGV - 2) / k
if size + items > entries then return {-4} end
local ops, at = {}, 0
for i = 3, #ARGV do
  ops[at + 1], ops[at + 2], ops[at + 3], ops[at + 4] = 'SET', 'u1', ARGV[i], '1'
  at = at + 4
end
local bits, reply, fresh = redis.call('BITFIELD', KEYS[1], unpack(ops)), {1}, 0
for i = 1, items do
  local new = 0
  for b = (i - 1) * k + 1, i * k do
    if bits[b] == 0 then new = 1 end
  end
  reply[i + 1], fresh = new, fresh + new
end
if fresh > 0 then
  redis.call('SETRANGE', KEYS[1], length - 52, struct.pack('<I8', all + fresh))
  redis.call('SETRANGE', KEYS[1], length - 89, struct.pack('<I8', size + fresh))
end
return reply
