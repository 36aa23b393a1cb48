-- leave.lua: let a member leave its cell. This is when a member that moves to another has moved.
-- KEYS[1] state    hash    {<name>:<cell>}:state, fields as doc.go says
-- KEYS[2] points   zset    {<name>:<cell>}:points
-- KEYS[3] leaving  hash    {<name>:<cell>}:leaving
-- KEYS[4] left     zset    {<name>:<cell>}:left
-- ARGV[1] member   bytes
-- ARGV[2] record   bytes   where it goes, as record.go says
-- ARGV[3] until_us integer when it is too late
-- ARGV[4] weight   integer bytes of a member without its name
-- ARGV[5] kept_us  integer for how long it is known that it left
-- Returns {status 1, left 1 yes|0 it is not here, or came by a later step|-1 too late}, or {0} frozen, or {-1, split text}
local s = redis.call('HMGET', KEYS[1], 'state', 'split')
if s[1] == 'split' then return {-1, s[2]} end
if s[1] == 'frozen' then return {0} end
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local open = redis.call('HGET', KEYS[3], ARGV[1])
if open and string.sub(open, -#ARGV[2]) == ARGV[2] or redis.call('ZSCORE', KEYS[4], ARGV[2]) then return {1, 1} end
if now > tonumber(ARGV[3]) then return {1, -1} end
-- Where a step brought it, it leaves once: if it is here, then by another step.
local before = string.sub(ARGV[2], 9, 16)
if redis.call('ZSCORE', KEYS[4], before) then return {1, 0} end
local score = redis.call('ZSCORE', KEYS[2], ARGV[1])
if not score then return {1, 0} end
redis.call('ZREM', KEYS[2], ARGV[1])
redis.call('ZADD', KEYS[4], string.format('%.0f', now), before)
redis.call('PEXPIRE', KEYS[4], string.format('%.0f', math.ceil(ARGV[5] / 1000)))
redis.call('HSET', KEYS[3], ARGV[1], table.concat({string.format('%.0f', now), score, ARGV[2]}, ' '))
redis.call('HINCRBY', KEYS[1], 'bytes', -#ARGV[1] - ARGV[4])
return {1, 1}
