-- delete.lua: delete fields.
-- KEYS[1] hash   hash    {<name>}:ttlhash, as doc.go says of all three
-- KEYS[2] index  zset    {<name>}:ttlindex
-- KEYS[3] events zset    {<name>}:ttlevents
-- ARGV[1] native integer 1: the server expires fields|0: it does not
-- ARGV[2] want   integer 1: give the values back
-- ARGV[3..] field bytes  to delete
-- Returns {now_us integer, deleted integer, value of each field bytes|'' if not wanted|nil if it was not there}
-- or an error: several fields with more than 1 MiB together

-- part: index
local names, reply, deleted = {}, {now_us, 0}, 0
for i = 3, #ARGV do names[#names + 1] = ARGV[i] end
local fault = too_large(names)
if fault then return fault end
sweep(2)
local values, seen = redis.call('HMGET', KEYS[1], unpack(names)), {}
for i = 1, #names do
  local deadline, event = header(values[i])
  reply[i + 2] = false
  if values[i] and not seen[names[i]] then
    if deadline == 0 or deadline > now then
      deleted = deleted + 1
      reply[i + 2] = ARGV[2] == '1' and string.sub(values[i], 9) or ''
    elseif event then
      tell(names[i], deadline, values[i])
    end
    seen[names[i]] = true
  end
end
redis.call('HDEL', KEYS[1], unpack(names))
if redis.call('EXISTS', KEYS[1]) == 0 then
  redis.call('UNLINK', KEYS[2])
  chunks = {}
end
done()
reply[2] = deleted
return reply
