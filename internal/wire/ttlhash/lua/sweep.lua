-- sweep.lua: delete fields that are over, and count the others.
-- KEYS[1] hash   hash    {<name>}:ttlhash, as doc.go says of all three
-- KEYS[2] index  zset    {<name>}:ttlindex
-- KEYS[3] events zset    {<name>}:ttlevents
-- ARGV[1] native integer 1: the server expires fields|0: it does not
-- ARGV[2] most   integer chunks to look at, of up to 16 fields
-- Returns {now_us integer, swept integer, more 0|1, fields integer, next_ms integer: when a chunk is due, 0 without one}

-- part: index
local swept = sweep(tonumber(ARGV[2]))
done()
local next_ms = tonumber(redis.call('ZRANGE', KEYS[2], 0, 0, 'WITHSCORES')[2] or 0)
return {now_us, swept, next_ms > 0 and next_ms <= now and 1 or 0, redis.call('HLEN', KEYS[1]), next_ms}
