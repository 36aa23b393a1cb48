-- close.lua: note that members which left have come to where they went.
-- KEYS[1] state   hash    {<name>:<cell>}:state, fields as doc.go says
-- KEYS[2] leaving hash    {<name>:<cell>}:leaving
-- KEYS[3] left    zset    {<name>:<cell>}:left, by when this was noted, in µs
-- ARGV[1] kept_us integer for how long readers are told
-- ARGV[2..] member bytes  each of them, and then the record with which it left
-- Returns {status 1 done|0 frozen}, or {-1, split text}
local s = redis.call('HMGET', KEYS[1], 'state', 'split')
if s[1] == 'split' then return {-1, s[2]} end
if s[1] == 'frozen' then return {0} end
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
for i = 2, #ARGV, 2 do
  local open = redis.call('HGET', KEYS[2], ARGV[i])
  if open and string.sub(open, -#ARGV[i + 1]) == ARGV[i + 1] then
    redis.call('HDEL', KEYS[2], ARGV[i])
    redis.call('ZADD', KEYS[3], string.format('%.0f', now), ARGV[i + 1])
  end
end
redis.call('ZREMRANGEBYSCORE', KEYS[3], '-inf', string.format('%.0f', now - ARGV[1]))
redis.call('PEXPIRE', KEYS[3], string.format('%.0f', math.ceil(ARGV[1] / 1000)))
return {1}
