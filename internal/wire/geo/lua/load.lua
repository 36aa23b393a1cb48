-- load.lua: fill a part of a cell that is split, unless the part is in use.
-- KEYS[1] state    hash    {<name>:<cell>}:state, fields as doc.go says
-- KEYS[2] points   zset    {<name>:<cell>}:points
-- KEYS[3] arriving hash    {<name>:<cell>}:arriving
-- KEYS[4] leaving  hash    {<name>:<cell>}:leaving
-- KEYS[5] left     zset    {<name>:<cell>}:left
-- ARGV[1] kind     text    points|arriving|leaving|left|ready
-- ARGV[2] number   integer how long left is kept, in ms; of ready the bytes
-- ARGV[3..] item   bytes   points: score and member; else the age in µs, the field, and what follows the time
-- Returns {status 1 done|0 it is in use}
if redis.call('HEXISTS', KEYS[1], 'state') == 1 then return {0} end
if ARGV[1] == 'ready' then
  redis.call('HSET', KEYS[1], 'state', 'live', 'bytes', ARGV[2])
  return {1}
end
if ARGV[1] == 'points' then
  redis.call('ZADD', KEYS[2], unpack(ARGV, 3))
  return {1}
end
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
for i = 3, #ARGV, 3 do
  local at = string.format('%.0f', now - ARGV[i])
  if ARGV[1] == 'left' then
    redis.call('ZADD', KEYS[5], at, ARGV[i + 1])
    redis.call('PEXPIRE', KEYS[5], ARGV[2])
  else
    local key = KEYS[3]
    if ARGV[1] == 'leaving' then key = KEYS[4] end
    redis.call('HSET', key, ARGV[i + 1], table.concat({at, ' ', ARGV[i + 2]}))
  end
end
return {1}
