-- open.lua: describe a new filter, or read the description.
-- KEYS[1] filter     hash    {<name>}:bloom, fields as doc.go says
-- ARGV[1] generation text    describes a new filter; empty: make none
-- ARGV[2] for_us     integer how long the maker may take to make the keys
-- Returns {made 0|1, until_us integer: when that ends, current text|nil, next text|nil, seal text|nil, ready text|nil, filled text|nil}
local t = redis.call('TIME')
local deadline = t[1] * 1000000 + t[2] + ARGV[2]
local made = 0
if ARGV[1] ~= '' then
  made = redis.call('HSETNX', KEYS[1], 'current', ARGV[1])
  if made == 1 then redis.call('HSET', KEYS[1], 'ready', '0', 'seal', '0') end
end
local f = redis.call('HMGET', KEYS[1], 'current', 'next', 'seal', 'ready', 'filled')
return {made, deadline, f[1], f[2], f[3], f[4], f[5]}
