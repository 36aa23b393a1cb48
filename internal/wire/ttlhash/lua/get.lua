-- get.lua: read fields by the server's own clock.
-- KEYS[1] hash    hash    {<name>}:ttlhash, as doc.go says
-- ARGV[1] want    integer 1: give the values
-- ARGV[2..] field bytes   which
-- Returns {ttl_ms integer|-1 without one|-2 it is not there, value bytes|'' if not wanted|nil, of each field}
-- or an error: several fields with more than 2 MiB together, which take 10 ms
local t = redis.call('TIME')
local now, names, reply = (t[1] * 1000000 + t[2]) / 1000, {}, {}
local bytes = 0
for i = 2, #ARGV do
  names[i - 1] = ARGV[i]
  if #ARGV > 2 then bytes = bytes + redis.call('HSTRLEN', KEYS[1], ARGV[i]) end
end
if bytes > 2097152 then return redis.error_reply('ERR redoubt: these fields have more than 2 MiB together: ask for fewer') end
local values = redis.call('HMGET', KEYS[1], unpack(names))
for i = 1, #names do
  local value, left = values[i], -2
  if value and #value >= 8 then
    local deadline = struct.unpack('>I6', value) % 2 ^ 47
    if deadline == 0 then left = -1 elseif deadline > now then left = math.max(1, math.floor(deadline - now)) end
  end
  reply[2 * i - 1], reply[2 * i] = left, left ~= -2 and (ARGV[1] == '1' and string.sub(value, 9) or '')
end
return reply
