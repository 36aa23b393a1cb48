-- release.lua: end an acquisition, held or only tried, and wake one waiter if the lock is free.
-- KEYS[1] lease   hash  {<name>}:lock, fields id until fence label wait
-- KEYS[2] waiters zset  {<name>}:wait, channel -> time_us it began to wait
-- ARGV[1] id      bytes names the acquisition, empty: only leave the queue
-- ARGV[2] channel bytes leaves the queue, may be empty
-- ARGV[3] publish bytes PUBLISH, or SPUBLISH on a cluster
-- ARGV[4] void    0|1   1: the acquire may be still under way, void it
-- Returns {released 0|1, woken 0|1}
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local held = redis.call('HMGET', KEYS[1], 'id', 'until', 'fence', 'wait')
local expiry = tonumber(held[2] or 0)
local fence = tonumber(held[3] or 0)
local keep_ms = 60000
if fence > now then keep_ms = keep_ms + math.floor((fence - now) / 1000) end
local released = 0

if ARGV[2] ~= '' then redis.call('ZREM', KEYS[2], ARGV[2]) end
if held[1] == ARGV[1] then
  if expiry > now then
    -- The id stays: it marks an acquisition that is over, so that a copy of
    -- its acquire that is still under way finds it and does nothing.
    redis.call('HSET', KEYS[1], 'until', 0)
    redis.call('PEXPIRE', KEYS[1], keep_ms)
    expiry = 0
  end
  -- 0 also when this is the same release again, after a lost reply.
  if expiry == 0 then released = 1 end
elseif ARGV[4] == '1' and expiry <= now then
  redis.call('HSET', KEYS[1], 'id', ARGV[1], 'until', 0)
  redis.call('PEXPIRE', KEYS[1], keep_ms)
end
if expiry > now or not held[4] then return {released, 0} end

-- Free: wake the waiter of longest standing. One whose process is gone has no
-- subscriber, so the next is tried; after 16 of them the rest find out by
-- themselves when the lease that they saw ends.
for _ = 1, 16 do
  local waiter = redis.call('ZPOPMIN', KEYS[2])
  if not waiter[1] then
    redis.call('HDEL', KEYS[1], 'wait')
    return {released, 0}
  end
  if redis.call(ARGV[3], waiter[1], KEYS[1]) > 0 then return {released, 1} end
end
return {released, 0}
