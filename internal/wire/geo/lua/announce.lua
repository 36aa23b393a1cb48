-- announce.lua: announce members that are to come to a cell.
-- KEYS[1] state    hash    {<name>:<cell>}:state, fields as doc.go says
-- KEYS[2] arriving hash    {<name>:<cell>}:arriving
-- ARGV[1] most     integer bytes, from which the cell is full
-- ARGV[2] weight   integer bytes of a member without its name
-- ARGV[3] make     0|1     whether to make the cell if it is not there
-- ARGV[4..] step   bytes   of each member the id of the step, 8 bytes, and the member; and then its score
-- Returns {status 1 done|0 frozen|-2 full|-3 the cell is not there}, or {-1, split text}
local s = redis.call('HMGET', KEYS[1], 'state', 'split', 'bytes', 'whole')
if s[1] == 'split' then return {-1, s[2]} end
if s[1] == 'frozen' then return {0} end
if not s[1] and ARGV[3] == '0' then return {-3} end
if tonumber(s[3] or 0) >= tonumber(ARGV[1]) and not s[4] then return {-2} end
local t = redis.call('TIME')
local now, bytes = string.format('%.0f', t[1] * 1000000 + t[2]), 0
for i = 4, #ARGV, 2 do
  if redis.call('HSETNX', KEYS[2], ARGV[i], table.concat({now, ARGV[i + 1]}, ' ')) == 1 then
    bytes = bytes + #ARGV[i] - 8 + ARGV[2]
  end
end
redis.call('HINCRBY', KEYS[1], 'bytes', bytes)
return {1}
