-- freeze.lua: stop changes of a cell that is full, to split it.
-- KEYS[1] state   hash    {<name>:<cell>}:state, fields as doc.go says
-- ARGV[1] most    integer bytes, from which the cell is full
-- ARGV[2] who     bytes   splits it
-- ARGV[3] for_us  integer how long it may take until another tries
-- Returns {status 1 split it|0 another does|2 it is not full}, or {-1, split text}
local s = redis.call('HMGET', KEYS[1], 'state', 'split', 'bytes', 'who', 'until', 'whole')
if s[1] == 'split' then return {-1, s[2]} end
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
if s[1] == 'frozen' then
  if s[4] ~= ARGV[2] and tonumber(s[5]) > now then return {0} end
elseif tonumber(s[3] or 0) < tonumber(ARGV[1]) or s[6] then
  return {2}
end
redis.call('HSET', KEYS[1], 'state', 'frozen', 'who', ARGV[2], 'until', string.format('%.0f', now + ARGV[3]))
return {1}
