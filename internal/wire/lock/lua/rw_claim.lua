-- rw_claim.lua: keep new readers out for a writer that waits.
-- The claim is good until a writer gets the lock, which raises the fence.
-- KEYS[1] lease    hash    {<name>}:lock, fields as doc.go and rwmutex.go say
-- ARGV[1] id       bytes   names the writer's acquisition
-- ARGV[2] claim_us integer for how long
-- Returns {claimed 0|1}: 0 when nobody holds the lock
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local held = redis.call('HMGET', KEYS[1], 'until', 'fence')
if tonumber(held[1] or 0) <= now then return {0} end
redis.call('HSET', KEYS[1], 'claim', string.format('%.0f', now + ARGV[2]), 'claim_by', ARGV[1], 'claim_fence', held[2])
return {1}
