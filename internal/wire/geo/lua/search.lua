-- search.lua: search a cell, and list the members that are announced to it or left it lately.
-- KEYS[1] state     hash    {<name>:<cell>}:state, fields as doc.go says
-- KEYS[2] points    zset    {<name>:<cell>}:points
-- KEYS[3] arriving  hash    {<name>:<cell>}:arriving
-- KEYS[4] leaving   hash    {<name>:<cell>}:leaving
-- KEYS[5] left      zset    {<name>:<cell>}:left
-- ARGV[1] within_us integer how long ago "lately" reaches
-- ARGV[2..] search  text    the arguments of GEOSEARCH, with WITHHASH
-- Returns {status 1|3 the cell has no state, now_us integer, points {member, hash integer of each}, arriving {step, time and score of each}, leaving {member, record of each}, left {record of each}}, or {-1, split text}
local s = redis.call('HMGET', KEYS[1], 'state', 'split')
if s[1] == 'split' then return {-1, s[2]} end
-- Flat, as for each table in a reply the server looks up a handful of fields. It is no
-- longer than what GEOSEARCH goes through, which is a cell.
local points = {}
for i, p in ipairs(redis.call('GEOSEARCH', KEYS[2], unpack(ARGV, 2))) do
  points[2 * i - 1], points[2 * i] = p[1], p[2]
end
local status = s[1] and 1 or 3
-- Mostly nobody comes or goes.
if redis.call('EXISTS', KEYS[3], KEYS[4], KEYS[5]) == 0 then return {status, 0, points, {}, {}, {}} end
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
return {
  status, now, points, redis.call('HGETALL', KEYS[3]), redis.call('HGETALL', KEYS[4]),
  redis.call('ZRANGEBYSCORE', KEYS[5], string.format('%.0f', now - ARGV[1]), '+inf'),
}
