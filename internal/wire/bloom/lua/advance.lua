-- advance.lua: note that a filter is made, or the next step of a rebuild.
-- KEYS[1] filter  hash    {<name>}:bloom, fields as doc.go says
-- ARGV[1] step    ready: the keys of the generation are made|alive: the builder is|filled: all items are in|abort: give up|switch: the keys of the old one are deleted
-- ARGV[2] who     text    the generation of ready and switch, else the builder
-- ARGV[3] for_us  integer how long the builder counts as alive from now
-- Returns {done 0|1}
local f = redis.call('HMGET', KEYS[1], 'current', 'next', 'builder', 'filled')
if ARGV[1] == 'ready' then
  if f[1] ~= ARGV[2] then return {0} end
  redis.call('HSET', KEYS[1], 'ready', '1')
  return {1}
end
if ARGV[1] == 'switch' then
  if f[1] == ARGV[2] then return {1} end
  if f[2] ~= ARGV[2] or f[4] ~= '1' then return {0} end
  redis.call('HSET', KEYS[1], 'current', f[2])
  redis.call('HDEL', KEYS[1], 'next', 'builder', 'until', 'filled')
  return {1}
end
if f[3] ~= ARGV[2] then return {0} end
if ARGV[1] == 'abort' then
  if f[4] == '1' then return {0} end
  redis.call('HDEL', KEYS[1], 'next', 'builder', 'until')
  return {1}
end
if ARGV[1] == 'filled' then redis.call('HSET', KEYS[1], 'filled', '1') end
local t = redis.call('TIME')
redis.call('HSET', KEYS[1], 'until', string.format('%.0f', t[1] * 1000000 + t[2] + ARGV[3]))
return {1}
