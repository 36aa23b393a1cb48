-- put.lua: move members within their cell.
-- KEYS[1] state  hash {<name>:<cell>}:state, fields as doc.go says
-- KEYS[2] points zset {<name>:<cell>}:points
-- ARGV[1..] member bytes each of them, and then its score
-- Returns {status 1 done|3 done, but the cell has no state, of each 1 moved|0 it is not here}, or {0} frozen, or {-1, split text}
local s = redis.call('HMGET', KEYS[1], 'state', 'split')
if s[1] == 'split' then return {-1, s[2]} end
if s[1] == 'frozen' then return {0} end
local reply = {s[1] and 1 or 3}
for i = 1, #ARGV, 2 do
  local here = 0
  if redis.call('ZSCORE', KEYS[2], ARGV[i]) then
    redis.call('ZADD', KEYS[2], ARGV[i + 1], ARGV[i])
    here = 1
  end
  reply[#reply + 1] = here
end
return reply
