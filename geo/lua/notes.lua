-- notes.lua: say who has left a cell lately, and whether the cell still is one.
-- KEYS[1] state     hash    {<name>:<cell>}:state, fields as doc.go says
-- KEYS[2] leaving   hash    {<name>:<cell>}:leaving
-- KEYS[3] left      zset    {<name>:<cell>}:left
-- ARGV[1] within_us integer how long ago is lately
-- Returns {status 1, now_us integer, leaving {member, record of each}, left {record of each}}, or {-1, split text}
local s = redis.call('HMGET', KEYS[1], 'state', 'split')
if s[1] == 'split' then return {-1, s[2]} end
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
return {
  1, now, redis.call('HGETALL', KEYS[2]),
  redis.call('ZRANGEBYSCORE', KEYS[3], string.format('%.0f', now - ARGV[1]), '+inf'),
}
