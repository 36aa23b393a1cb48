-- begin.lua: begin to fill a new generation.
-- KEYS[1] filter  hash    {<name>}:bloom, fields as doc.go says
-- ARGV[1] current text    the generation that is to be replaced
-- ARGV[2] next    text    the new one
-- ARGV[3] builder text    the rebuild that fills it
-- ARGV[4] for_us  integer for how long it counts as alive without a word
-- Returns {status 1 begun|0 another fills one|-1 the filter has changed, seal integer, until_us integer: when the other counts as dead, or this one, before text: a generation that nobody fills any more}
local f = redis.call('HMGET', KEYS[1], 'current', 'next', 'seal', 'builder', 'until', 'filled', 'ready')
if f[1] ~= ARGV[1] or f[6] == '1' or f[7] ~= '1' then return {-1, 0, 0, ''} end
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
if f[2] and f[4] ~= ARGV[3] and tonumber(f[5]) > now then return {0, 0, tonumber(f[5]), ''} end
if f[2] == ARGV[2] then return {1, tonumber(f[3]), tonumber(f[5]), ''} end
local seal, deadline = f[3] + 1, now + ARGV[4]
redis.call('HSET', KEYS[1], 'next', ARGV[2], 'builder', ARGV[3], 'seal', seal, 'until', string.format('%.0f', deadline))
return {1, seal, deadline, f[2] or ''}
