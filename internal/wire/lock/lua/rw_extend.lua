-- rw_extend.lua: prolong a lease, of a writer or a reader, that is still held by this acquisition.
-- It never makes it shorter: if two extensions overtake each other, the longer one counts.
-- KEYS[1] lease   hash    {<name>}:lock, fields as doc.go and rwmutex.go say
-- KEYS[2] readers zset    {<name>}:readers, scores as rwmutex.go says
-- KEYS[3] labels  hash    {<name>}:labels, of the readers: since when, a blank, and the label, by id
-- ARGV[1] id      bytes   names the acquisition
-- ARGV[2] ttl_us  integer > 0, from now
-- Returns {held 0|1, fence integer, ttl_us integer: the time left}
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local held = redis.call('HMGET', KEYS[1], 'id', 'until', 'fence', 'shared')
local fence = tonumber(held[3] or 0)
local expiry = tonumber(held[2] or 0)
local mine = 0
if held[1] == ARGV[1] then
  mine = expiry
elseif held[1] == held[4] then
  mine = tonumber(redis.call('ZSCORE', KEYS[2], ARGV[1]) or 0)
end
if expiry <= now or mine <= now then return {0, fence, 0} end
local wanted = now + ARGV[2]
if mine >= wanted then return {1, fence, mine - now} end

if held[1] ~= ARGV[1] then redis.call('ZADD', KEYS[2], string.format('%.0f', wanted), ARGV[1]) end
expiry = math.max(expiry, wanted)
redis.call('HSET', KEYS[1], 'until', string.format('%.0f', expiry))
local keep_ms = string.format('%.0f', math.floor((math.max(expiry, fence) - now) / 1000) + 60000)
redis.call('PEXPIRE', KEYS[1], keep_ms)
redis.call('PEXPIRE', KEYS[2], keep_ms)
redis.call('PEXPIRE', KEYS[3], keep_ms)
return {1, fence, tonumber(ARGV[2])}
