-- tag.lua: add an entry to a tag, and return when the tag was last invalidated.
-- KEYS[1] tag     zset    {<cache>:<tag>}:tag, keys by when they are gone, in µs
-- KEYS[2] tagged  string  {<cache>:<tag>}:tagged, when it was last invalidated, in µs
-- ARGV[1] key     bytes   of the entry
-- ARGV[2] keep_ms integer > 0, how long the entry lives
-- Returns {last_us integer, 0: not for an hour}
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
redis.call('ZADD', KEYS[1], string.format('%.0f', now + ARGV[2] * 1000), ARGV[1])
-- Each call adds one key and removes up to two expired ones, so expired keys do not accumulate.
local gone = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', string.format('%.0f', now), 'LIMIT', 0, 2)
if #gone > 0 then redis.call('ZREM', KEYS[1], unpack(gone)) end
if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
return {tonumber(redis.call('GET', KEYS[2]) or 0)}
