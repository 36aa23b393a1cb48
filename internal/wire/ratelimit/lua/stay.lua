-- stay.lua: prolong a call that is under way, or end it.
-- KEYS[1] calls  zset    ids of calls under way, by until when: in us since 1970
-- ARGV[1] id     bytes   names the call
-- ARGV[2] ttl_us integer from now; 0 ends it. It never gets shorter otherwise
-- Returns {held 0|1}: whether it was under way
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local till = tonumber(redis.call('ZSCORE', KEYS[1], ARGV[1]) or 0)
if till <= now then return {0} end
if ARGV[2] == '0' then
  redis.call('ZREM', KEYS[1], ARGV[1])
  return {1}
end
redis.call('ZADD', KEYS[1], string.format('%.0f', math.max(till, now + ARGV[2])), ARGV[1])
local last = redis.call('ZREVRANGE', KEYS[1], 0, 0, 'WITHSCORES')
redis.call('PEXPIRE', KEYS[1], string.format('%.0f', math.ceil((last[2] - now) / 1000)))
return {1}
