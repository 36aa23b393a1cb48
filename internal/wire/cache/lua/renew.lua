-- renew.lua: prolong a lease that still exists.
-- KEYS[1] entry    string  {<cache>:<key>}:cache, as doc.go says
-- ARGV[1] owner    bytes   8, as in lease.lua
-- ARGV[2] lease_us integer > 0
-- Returns {held 0|1}
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
-- part: head
if not known or owner ~= ARGV[1] then return {0} end
local lease_ms = math.ceil(ARGV[2] / 1000)
redis.call('SETRANGE', KEYS[1], 19, struct.pack('>I8', now + ARGV[2]))
if redis.call('PTTL', KEYS[1]) < lease_ms then redis.call('PEXPIRE', KEYS[1], string.format('%.0f', lease_ms)) end
return {1}
