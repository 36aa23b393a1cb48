-- store.lua: store a loaded value if the lease still exists, and wake the waiters.
-- KEYS[1] entry    string  {<cache>:<key>}:cache, as doc.go says
-- ARGV[1] owner    bytes   8, as in lease.lua; the id of the value from then on
-- ARGV[2] mark     bytes   3: the version of the layout, the kind, the encoding
-- ARGV[3] fresh_us integer > 0, how long it is fresh
-- ARGV[4] delta_us integer how long the load took
-- ARGV[5] keep_ms  integer > 0, how long the key lives
-- ARGV[6] payload  bytes
-- Returns {stored 0|1, now_us integer}
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
-- part: head
if known and kind ~= '-' and id == ARGV[1] then return {1, now} end -- the same again, after a lost reply
if not known or owner ~= ARGV[1] then return {0, now} end
local waiters = redis.call('GETRANGE', KEYS[1], 47 + size, -1)
redis.call('SET', KEYS[1], struct.pack('>c3I8I8I8c8c8I4c0', ARGV[2], now + ARGV[3], tonumber(ARGV[4]), 0,
  ARGV[1], '\0\0\0\0\0\0\0\0', #ARGV[6], ARGV[6]), 'PX', ARGV[5])
-- part: wake
return {1, now}
