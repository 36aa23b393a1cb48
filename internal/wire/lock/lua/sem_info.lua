-- sem_info.lua: the holders of permits, by the ends of their leases, and the number of waiting processes.
-- KEYS[1] semaphore hash    {<name>}:sem, fields as semaphore.go says
-- KEYS[2] permits   zset    {<name>}:permits, scores as semaphore.go says
-- ARGV[1] most      integer how many holders to list
-- Returns {taken integer, fence integer, waiters integer, holders array of fence, ttl_us, since_us and label in turn}
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local after = string.format('%.0f', now + 1)
local state = redis.call('HMGET', KEYS[1], 'fence', 'head', 'tail')
local holders = {}
local permits = redis.call('ZRANGEBYSCORE', KEYS[2], after, '+inf', 'WITHSCORES', 'LIMIT', 0, ARGV[1])
for i = 1, #permits, 2 do
  local token = redis.call('HGET', KEYS[1], permits[i]) or '0'
  holders[#holders + 1] = tonumber(token)
  holders[#holders + 1] = permits[i + 1] - now
  holders[#holders + 1] = tonumber(token)
  holders[#holders + 1] = redis.call('HGET', KEYS[1], token) or ''
end
return {redis.call('ZCOUNT', KEYS[2], after, '+inf'), tonumber(state[1] or 0), tonumber(state[3] or 0) - tonumber(state[2] or 0), holders}
