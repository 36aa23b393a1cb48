-- extend.lua: prolong a lease that is still held by this acquisition.
-- KEYS[1] lease  hash    {<name>}:lock, fields id until fence label
-- ARGV[1] id     bytes   names the acquisition
-- ARGV[2] ttl_us integer > 0, from now
-- Returns {held 0|1, fence integer, ttl_us integer}
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local held = redis.call('HMGET', KEYS[1], 'id', 'until', 'fence')
local fence = tonumber(held[3] or 0)
if held[1] ~= ARGV[1] or tonumber(held[2] or 0) <= now then return {0, fence, 0} end

local expiry = now + ARGV[2]
redis.call('HSET', KEYS[1], 'until', string.format('%.0f', expiry))
redis.call('PEXPIREAT', KEYS[1], string.format('%.0f', math.floor(math.max(expiry, fence) / 1000) + 60000))
return {1, fence, expiry - now}
