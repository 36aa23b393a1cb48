-- where.lua: say what a cell knows of members.
-- KEYS[1] state    hash {<name>:<cell>}:state, fields as doc.go says
-- KEYS[2] points   zset {<name>:<cell>}:points
-- KEYS[3] arriving hash {<name>:<cell>}:arriving
-- KEYS[4] leaving  hash {<name>:<cell>}:leaving
-- KEYS[5] left     zset {<name>:<cell>}:left
-- ARGV[1..] step   bytes the id of the step that brought a member here, 8 bytes, and the member
-- Returns {status 1|3 the cell has no state, now_us integer, of each {score text|nil, arriving text|nil, leaving bytes|nil, whether what that step brought has left text|nil}}, or {-1, split text}
local s = redis.call('HMGET', KEYS[1], 'state', 'split')
if s[1] == 'split' then return {-1, s[2]} end
local t = redis.call('TIME')
local reply = {s[1] and 1 or 3, t[1] * 1000000 + t[2]}
for i = 1, #ARGV do
  local member = string.sub(ARGV[i], 9)
  reply[i + 2] = {
    redis.call('ZSCORE', KEYS[2], member),
    redis.call('HGET', KEYS[3], ARGV[i]),
    redis.call('HGET', KEYS[4], member),
    redis.call('ZSCORE', KEYS[5], string.sub(ARGV[i], 1, 8)),
  }
end
return reply
