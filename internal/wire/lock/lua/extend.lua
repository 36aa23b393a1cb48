-- extend.lua: prolong a lease that is still held by this acquisition.
-- It never makes it shorter: if two extensions overtake each other, the longer one counts.
-- KEYS[1] lease   hash    {<name>}:lock, fields as doc.go says
-- ARGV[1] id      bytes   names the acquisition
-- ARGV[2] ttl_us  integer > 0, from now
-- ARGV[3] keep_ms integer the ttl and a minute: how long the key lives
-- Returns {held 0|1, fence integer, ttl_us integer: the time left}
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local held = redis.call('HMGET', KEYS[1], 'id', 'until', 'fence')
local fence = tonumber(held[3] or 0)
local left = tonumber(held[2] or 0) - now
if held[1] ~= ARGV[1] or left <= 0 then return {0, fence, 0} end
if left >= tonumber(ARGV[2]) then return {1, fence, left} end

redis.call('HSET', KEYS[1], 'until', string.format('%.0f', now + ARGV[2]))
local keep_ms = ARGV[3]
if fence > now then keep_ms = keep_ms + math.floor((fence - now) / 1000) end
redis.call('PEXPIRE', KEYS[1], keep_ms)
return {1, fence, tonumber(ARGV[2])}
