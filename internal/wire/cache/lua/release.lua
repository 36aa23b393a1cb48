-- release.lua: release a lease without a value, and wake the waiters.
-- KEYS[1] entry string {<cache>:<key>}:cache, as doc.go says
-- ARGV[1] owner bytes  8, as in lease.lua
-- Returns {released 0|1}

-- part: head
if not known or owner ~= ARGV[1] then return {0} end
local waiters = redis.call('GETRANGE', KEYS[1], 47 + size, -1)
if kind == '-' then
  redis.call('DEL', KEYS[1])
else
  redis.call('SET', KEYS[1], redis.call('GETRANGE', KEYS[1], 0, 46 + size), 'KEEPTTL')
  redis.call('SETRANGE', KEYS[1], 19, '\0\0\0\0\0\0\0\0')
  redis.call('SETRANGE', KEYS[1], 35, '\0\0\0\0\0\0\0\0')
end
-- part: wake
return {1}
