-- rw_info.lua: the holders of the lock, by the ends of their leases, and the number of waiting processes.
-- KEYS[1] lease   hash    {<name>}:lock, fields as doc.go and rwmutex.go say
-- KEYS[2] readers zset    {<name>}:readers, scores as rwmutex.go says
-- KEYS[3] labels  hash    {<name>}:labels, of the readers: since when, a blank, and the label, by id
-- ARGV[1] most    integer how many holders to list
-- Returns {mode 0 free|1 exclusive|2 shared, count integer, fence integer, waiters integer, holders array of fence, ttl_us, since_us and label in turn}
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local held = redis.call('HMGET', KEYS[1], 'id', 'until', 'fence', 'label', 'shared', 'head', 'tail', 'fair')
local left = tonumber(held[2] or 0) - now
local fence = tonumber(held[3] or 0)
local waiters = tonumber(held[7] or 0) - tonumber(held[6] or 0) + tonumber(held[8] or 0)
if left <= 0 then return {0, 0, fence, waiters, {}} end
if held[1] ~= held[5] then return {1, 1, fence, waiters, {fence, left, fence, held[4]}} end

local after = string.format('%.0f', now + 1)
local readers = redis.call('ZRANGEBYSCORE', KEYS[2], after, '+inf', 'WITHSCORES', 'LIMIT', 0, ARGV[1])
local holders = {}
for i = 1, #readers, 2 do
  holders[#holders + 1] = fence
  holders[#holders + 1] = readers[i + 1] - now
  local since, label = string.match(redis.call('HGET', KEYS[3], readers[i]) or '0 ', '^(%d+) (.*)$')
  holders[#holders + 1] = tonumber(since)
  holders[#holders + 1] = label
end
return {2, redis.call('ZCOUNT', KEYS[2], after, '+inf'), fence, waiters, holders}
