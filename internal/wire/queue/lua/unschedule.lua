-- unschedule.lua: remove schedules of a queue. Messages that they have put stay.
-- KEYS[1] schedules hash  {<name>}:queue:schedules, ids of schedules to what was put
-- KEYS[2] states  hash    ids of schedules to where each stands
-- KEYS[3] ticks   zset    ids of schedules by their next time
-- ARGV[1..] ids   bytes   at most 1000
-- Returns {removed integer}
redis.call('HDEL', KEYS[1], unpack(ARGV))
redis.call('ZREM', KEYS[3], unpack(ARGV))
return {redis.call('HDEL', KEYS[2], unpack(ARGV))}
