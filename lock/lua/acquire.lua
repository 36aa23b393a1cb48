-- acquire.lua: take the lease if nobody holds it, else queue for a wake-up.
-- KEYS[1] lease   hash    {<name>}:lock, fields id until fence label
-- KEYS[2] waiters zset    {<name>}:wait, channel -> time_us it began to wait
-- ARGV[1] id      bytes   names this acquisition, made by the client
-- ARGV[2] ttl_us  integer > 0
-- ARGV[3] label   bytes   shown to people, may be empty
-- ARGV[4] channel bytes   where to publish a wake-up, empty: don't queue
-- Returns {status 1 acquired|0 held by another|-1 this id is over, fence integer, ttl_us integer, label bytes}
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local held = redis.call('HMGET', KEYS[1], 'id', 'until', 'fence', 'label')
local expiry = tonumber(held[2] or 0)
local fence = tonumber(held[3] or 0)

if held[1] == ARGV[1] then
  -- The same acquisition again, after a lost reply: the same answer. One that
  -- was released or ran out never comes back, however late a copy arrives.
  if expiry > now then return {1, fence, expiry - now, ARGV[3]} end
  return {-1, fence, 0, ''}
end

if expiry > now then
  if ARGV[4] ~= '' then
    redis.call('ZADD', KEYS[2], 'NX', string.format('%.0f', now), ARGV[4])
    redis.call('PEXPIRE', KEYS[2], 60000)
  end
  return {0, fence, expiry - now, held[4] or ''}
end

fence = math.max(fence + 1, now)
expiry = now + ARGV[2]
redis.call('HSET', KEYS[1], 'id', ARGV[1], 'until', string.format('%.0f', expiry),
  'fence', string.format('%.0f', fence), 'label', ARGV[3])
-- The key outlives the lease by a minute, so that fences go on rising when the
-- clock of a new primary is behind.
redis.call('PEXPIREAT', KEYS[1], string.format('%.0f', math.floor(math.max(expiry, fence) / 1000) + 60000))
if ARGV[4] ~= '' then redis.call('ZREM', KEYS[2], ARGV[4]) end
return {1, fence, expiry - now, ARGV[3]}
