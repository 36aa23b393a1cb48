-- enter.lua: begin a call, if fewer than a number of them are under way.
-- KEYS[1] calls  zset    ids of calls under way, by until when: in us since 1970
-- ARGV[1] id     bytes   names this call: again with the same id it is the same call
-- ARGV[2] ttl_us integer > 0
-- ARGV[3] limit  integer > 0
-- Returns {entered 0|1, calls integer, retry_us integer}: calls under way, this one included; when one of them is over at the latest
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', string.format('%.0f', now))
local calls = redis.call('ZCARD', KEYS[1])
local mine = redis.call('ZSCORE', KEYS[1], ARGV[1])
if not mine and calls >= tonumber(ARGV[3]) then
  local first = redis.call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')
  return {0, calls, first[2] - now}
end
if not mine then
  redis.call('ZADD', KEYS[1], string.format('%.0f', now + ARGV[2]), ARGV[1])
  calls = calls + 1
end
local last = redis.call('ZREVRANGE', KEYS[1], 0, 0, 'WITHSCORES')
redis.call('PEXPIRE', KEYS[1], string.format('%.0f', math.ceil((last[2] - now) / 1000)))
return {1, calls, 0}
