-- config.lua: set what holds for all consumers of a queue.
-- KEYS[1] config  hash    paused, concurrency, interval_us and burst of the rate, tat_us: its theoretical arrival time
-- KEYS[2] queue   hash    {<name>}:queue, ids to envelopes
-- KEYS[3] wake    zset    the marker that wakes one consumer
-- ARGV[1..] fields bytes  two each: field, value; an empty value takes the field away
-- Another rate begins anew.
-- Returns {settings integer: how many there are}
for i = 1, #ARGV, 2 do
  if (ARGV[i] == 'interval_us' or ARGV[i] == 'burst') and (redis.call('HGET', KEYS[1], ARGV[i]) or '') ~= ARGV[i + 1] then
    redis.call('HDEL', KEYS[1], 'tat_us')
  end
  if ARGV[i + 1] == '' then
    redis.call('HDEL', KEYS[1], ARGV[i])
  else
    redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1])
  end
end
if redis.call('EXISTS', KEYS[2]) == 1 then redis.call('ZADD', KEYS[3], 0, '1') end
return {redis.call('HLEN', KEYS[1])}
