-- info.lua: who holds the lock, and how many processes wait for it.
-- KEYS[1] lease hash {<name>}:lock, fields as doc.go says
-- Returns {held 0|1, fence integer, ttl_us integer, waiters integer, label bytes}
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local held = redis.call('HMGET', KEYS[1], 'until', 'fence', 'label', 'head', 'tail')
local left = tonumber(held[1] or 0) - now
local waiters = tonumber(held[5] or 0) - tonumber(held[4] or 0)
if left <= 0 then return {0, tonumber(held[2] or 0), 0, waiters, ''} end
return {1, tonumber(held[2]), left, waiters, held[3]}
