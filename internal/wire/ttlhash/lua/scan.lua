-- scan.lua: read some of the fields, by the server's own clock.
-- KEYS[1] hash   hash    {<name>}:ttlhash, as doc.go says
-- ARGV[1] cursor integer as of HSCAN
-- ARGV[2] match  text    a pattern for fields
-- ARGV[3] count  integer about how many to look at
-- Returns {cursor text, {field bytes, value bytes of each}}
local t = redis.call('TIME')
local now, reply = math.floor((t[1] * 1000000 + t[2]) / 1000), {}
-- A reply of 1 MiB takes 5 ms. The page ends there, even if the caller asked for more fields.
-- HSCAN returns values of any length, so the steps begin small: each looks at half as many fields
-- as all steps before it. If many values are large, an early step finds one.
local cursor, left, looked, bytes = ARGV[1], tonumber(ARGV[3]), 0, 0
repeat
  local count = math.max(1, math.min(left, math.floor(looked / 2), 64))
  local page = redis.call('HSCAN', KEYS[1], cursor, 'MATCH', ARGV[2], 'COUNT', count)
  cursor, left, looked = page[1], left - count, looked + count
  for i = 1, #page[2], 2 do
    local value = page[2][i + 1]
    bytes = bytes + #page[2][i] + #value
    if #value >= 8 then
      local deadline = struct.unpack('>I6', value) % 2 ^ 47
      if deadline == 0 or deadline > now then
        reply[#reply + 1] = page[2][i]
        reply[#reply + 1] = string.sub(value, 9)
      end
    end
  end
until cursor == '0' or left <= 0 or bytes > 1048576
return {cursor, reply}
