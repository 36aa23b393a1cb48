-- release.lua: end an acquisition, held or only tried, and wake one waiter if the lock is free.
-- KEYS[1] lease   hash  {<name>}:lock, fields id until fence label
-- KEYS[2] waiters zset  {<name>}:wait, channel -> time_us it began to wait
-- ARGV[1] id      bytes names the acquisition, empty: only leave the queue
-- ARGV[2] channel bytes leaves the queue, may be empty
-- ARGV[3] publish bytes PUBLISH, or SPUBLISH on a cluster
-- ARGV[4] void    0|1   1: the acquire may be still under way, void it
-- Returns {released 0|1, woken 0|1}
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local held = redis.call('HMGET', KEYS[1], 'id', 'until', 'fence')
local expiry = tonumber(held[2] or 0)
local fence = tonumber(held[3] or 0)
local mine = held[1] == ARGV[1]
local released = 0

if ARGV[2] ~= '' then redis.call('ZREM', KEYS[2], ARGV[2]) end
if mine and expiry == 0 then
  released = 1 -- the same release again, after a lost reply: the same answer
elseif mine and expiry > now or ARGV[4] == '1' and expiry <= now then
  -- The id stays with until = 0: it marks an acquisition that is over, so that
  -- a copy of its acquire that is still under way finds it and does nothing.
  if mine then released = 1 end
  expiry = 0
  redis.call('HSET', KEYS[1], 'id', ARGV[1], 'until', 0)
  redis.call('PEXPIREAT', KEYS[1], string.format('%.0f', math.floor(math.max(now, fence) / 1000) + 60000))
end
if expiry > now then return {released, 0} end

-- Free: wake the waiter of longest standing. One whose process is gone has no
-- subscriber, so the next is tried; after 16 of them the rest find out by
-- themselves when the lease that they saw ends.
for _ = 1, 16 do
  local waiter = redis.call('ZPOPMIN', KEYS[2])
  if not waiter[1] then return {released, 0} end
  if redis.call(ARGV[3], waiter[1], KEYS[1]) > 0 then return {released, 1} end
end
return {released, 0}
