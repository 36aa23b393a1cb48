-- requeue.lua: give dead messages all their attempts again.
-- KEYS[1] queue   hash    {<name>}:queue, ids to envelopes
-- KEYS[2] ready   zset    ids by rank of their lane and since when they are ready
-- KEYS[3] groups  zset    a group, a place in its line, an id (place.lua)
-- KEYS[4] wake    zset    the marker that wakes one consumer
-- KEYS[5] dead    zset    ids by when they died
-- KEYS[6] fails   hash    ids to how often they failed, and the last reason
-- ARGV[1..] ids   bytes   at most 1000
-- Returns {requeued 0|1 of each}
local queue = nil -- the functions of place.lua
local t = redis.call('TIME')
local us = t[1] * 1000000 + t[2] - 1577836800000000
local requeued = {}
for i, id in ipairs(ARGV) do
  requeued[i] = redis.call('ZREM', KEYS[5], id)
  local envelope = requeued[i] == 1 and redis.call('HGET', KEYS[1], id)
  if envelope then
    redis.call('HDEL', KEYS[6], id)
    queue.place(id, envelope, us)
  end
end
queue.flush()
if redis.call('EXISTS', KEYS[2]) == 1 then redis.call('ZADD', KEYS[4], 0, '1') end
return requeued
