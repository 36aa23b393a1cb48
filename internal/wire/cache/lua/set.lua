-- set.lua: store a value, tell local levels, and wake the waiters.
-- KEYS[1] entry    string  {<cache>:<key>}:cache, as doc.go says
-- A cache with tags names a second key, which this script doesn't use.
-- ARGV[1] id       bytes   8, of the value
-- ARGV[2] mark     bytes   3: the version of the layout, the kind, the encoding
-- ARGV[3] fresh_us integer > 0, how long it is fresh
-- ARGV[4] keep_ms  integer > 0, how long the key lives
-- ARGV[5] payload  bytes
-- ARGV[6] channel  bytes   on which local levels listen
-- ARGV[7] message  bytes   for them
-- Returns {now_us integer}
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
-- part: head
local waiters = known and redis.call('GETRANGE', KEYS[1], 47 + size, -1) or ''
redis.call('SET', KEYS[1], struct.pack('>c3I8I8I8c8c8I4c0', ARGV[2], now + ARGV[3], 0, 0,
  ARGV[1], '\0\0\0\0\0\0\0\0', #ARGV[5], ARGV[5]), 'PX', ARGV[4])
redis.call('PUBLISH', ARGV[6], ARGV[7])
-- part: wake
return {now}
