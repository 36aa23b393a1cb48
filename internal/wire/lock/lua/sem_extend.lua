-- sem_extend.lua: prolong a permit that is still held by this acquisition.
-- It never makes it shorter: if two extensions overtake each other, the longer one counts.
-- KEYS[1] semaphore hash    {<name>}:sem, fields as semaphore.go says
-- KEYS[2] permits   zset    {<name>}:permits, scores as semaphore.go says
-- ARGV[1] permit    bytes   a '=' and the id that names the acquisition
-- ARGV[2] ttl_us    integer > 0, from now
-- Returns {held 0|1, fence integer, ttl_us integer: the time left}
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local left = tonumber(redis.call('ZSCORE', KEYS[2], ARGV[1]) or 0) - now
local fence = tonumber(redis.call('HGET', KEYS[1], ARGV[1]) or 0)
if left <= 0 or fence == 0 then return {0, fence, 0} end
if left >= tonumber(ARGV[2]) then return {1, fence, left} end

redis.call('ZADD', KEYS[2], string.format('%.0f', now + ARGV[2]), ARGV[1])
local last = redis.call('ZREVRANGE', KEYS[2], 0, 0, 'WITHSCORES')
last = math.max(tonumber(last[2]), tonumber(redis.call('HGET', KEYS[1], 'fence')))
local keep_ms = string.format('%.0f', math.floor((last - now) / 1000) + 60000)
redis.call('PEXPIRE', KEYS[1], keep_ms)
redis.call('PEXPIRE', KEYS[2], keep_ms)
return {1, fence, tonumber(ARGV[2])}
