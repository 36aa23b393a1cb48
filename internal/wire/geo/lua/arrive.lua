-- arrive.lua: let announced members come to a cell, or withdraw them.
-- KEYS[1] state    hash    {<name>:<cell>}:state, fields as doc.go says
-- KEYS[2] points   zset    {<name>:<cell>}:points
-- KEYS[3] arriving hash    {<name>:<cell>}:arriving
-- ARGV[1] weight   integer bytes of a member without its name
-- ARGV[2..] step   bytes   as it was announced, and then the score; empty: withdraw it
-- Returns {status 1 done|3 done, but the cell has no state|0 frozen}, or {-1, split text}
local s = redis.call('HMGET', KEYS[1], 'state', 'split')
if s[1] == 'split' then return {-1, s[2]} end
if s[1] == 'frozen' then return {0} end
local bytes = 0
for i = 2, #ARGV, 2 do
  if redis.call('HDEL', KEYS[3], ARGV[i]) == 1 then
    if ARGV[i + 1] == '' or redis.call('ZADD', KEYS[2], ARGV[i + 1], string.sub(ARGV[i], 9)) == 0 then
      bytes = bytes + #ARGV[i] - 8 + ARGV[1]
    end
  end
end
if bytes > 0 then redis.call('HINCRBY', KEYS[1], 'bytes', -bytes) end
return {s[1] and 1 or 3}
