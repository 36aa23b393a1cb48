-- set.lua: set fields.
-- KEYS[1] hash   hash    {<name>}:ttlhash, as doc.go says of all three
-- KEYS[2] index  zset    {<name>}:ttlindex
-- KEYS[3] events zset    {<name>}:ttlevents
-- ARGV[1] native integer 1: the server expires fields|0: it does not
-- ARGV[2] event  integer 1: the end of a field is an event|0: it is none
-- ARGV[3] when   text    any|absent: none of the fields is there|present: all are
-- ARGV[4..] field bytes  three arguments each: the field, its value, its ttl in ms or -1
-- Returns {set 0|1, now_us integer}
-- or an error: several fields with more than 1 MiB together, as they are

-- part: index
local event, when, names = ARGV[2] == '1', ARGV[3], {}
for i = 4, #ARGV, 3 do names[#names + 1] = ARGV[i] end
local reads = when ~= 'any' or event or not native
local fault = reads and too_large(names)
if fault then return fault end
sweep(2)
local old = {}
if reads then old = redis.call('HMGET', KEYS[1], unpack(names)) end
for i = 1, #names do
  local deadline = header(old[i])
  local alive = old[i] and (deadline == 0 or deadline > now) or false
  if when == 'absent' and alive or when == 'present' and not alive then
    done()
    return {0, now_us}
  end
end

local left = redis.call('PTTL', KEYS[1])
if left == -2 then
  redis.call('UNLINK', KEYS[2])
  chunks = {}
end
local fields, together, last, forever = {}, {}, 0, false
for i = 1, #names do
  local name, ttl = names[i], tonumber(ARGV[3 * i + 3])
  local before, was_event, tag = header(old[i])
  if was_event and before <= now then tell(name, before, old[i]) end
  local deadline = 0
  if ttl < 0 then
    forever, tag = true, 0
  else
    deadline = math.ceil(now_us / 1000) + ttl
    last = math.max(last, event and deadline + GRACE or deadline)
    if native and not event then
      tag = 0
    elseif tag == 0 or deadline < before or event and not was_event then
      -- Otherwise a sweep finds it early enough, and files it anew.
      tag = file(name, deadline, ttl, event)
    end
    if native then
      local same = together[deadline] or {}
      same[#same + 1], together[deadline] = name, same
    end
  end
  fields[2 * i - 1], fields[2 * i] = name, packed(deadline, event and ttl > 0, tag, ARGV[3 * i + 2])
end
redis.call('HSET', KEYS[1], unpack(fields))
for deadline, same in pairs(together) do
  redis.call('HPEXPIREAT', KEYS[1], string.format('%.0f', event and deadline + GRACE or deadline), 'FIELDS', #same, unpack(same))
end
keep(left, last, forever)
tidy()
done()
return {1, now_us}
