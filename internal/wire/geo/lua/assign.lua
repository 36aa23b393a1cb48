-- assign.lua: note that a member is in another cell, or in none.
-- KEYS[1] members  hash    {<name>:<n>}:members
-- ARGV[1] member   bytes
-- ARGV[2] before   bytes   id of the step that brought it to where it was; empty: it was in none
-- ARGV[3] home     bytes   id of this step and the cell, as doc.go says; empty: it is in none
-- ARGV[4] until_us integer when it is too late; 0: never
-- Returns {status 1 done, now or before|0 it is elsewhere|-1 too late}
local home = redis.call('HGET', KEYS[1], ARGV[1])
local step = string.sub(home or '', 1, 8)
if step == string.sub(ARGV[3], 1, 8) then return {1} end
if step ~= ARGV[2] then return {0} end
if ARGV[4] ~= '0' then
  local t = redis.call('TIME')
  if t[1] * 1000000 + t[2] > tonumber(ARGV[4]) then return {-1} end
end
if ARGV[3] == '' then
  redis.call('HDEL', KEYS[1], ARGV[1])
else
  redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
end
return {1}
