-- sem_acquire.lua: take a permit if one is free, else queue for a wake-up.
-- KEYS[1] semaphore hash    {<name>}:sem, fields as semaphore.go says
-- KEYS[2] permits   zset    {<name>}:permits, scores as semaphore.go says
-- ARGV[1] permit    bytes   a '=' and the id that names this acquisition
-- ARGV[2] ttl_us    integer > 0
-- ARGV[3] label     bytes   shown to people, may be empty
-- ARGV[4] waiter    bytes   PUBLISH or SPUBLISH, a blank, the channel to wake; empty: don't queue
-- ARGV[5] limit     integer > 0, how many permits there are, for this caller
-- Returns {status 1 acquired|0 none is free|-1 this id is over, fence integer, ttl_us integer, label bytes}: own, or when busy of the permit that ends first
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local at = string.format('%.0f', now)

-- An acquisition that ran out is over: it doesn't come back when a late copy of its
-- acquire arrives. Later calls see to what is more than a few at once.
for _, old in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], 0, at, 'LIMIT', 0, 32)) do
  local token = redis.call('HGET', KEYS[1], old)
  redis.call('HDEL', KEYS[1], old, token or '')
  redis.call('ZADD', KEYS[2], string.format('%.0f', -2 * now), old)
end
local over = redis.call('ZCOUNT', KEYS[2], '-inf', '(0')
if over > 128 then redis.call('ZREMRANGEBYRANK', KEYS[2], 128, string.format('%.0f', over - 1)) end

-- The same acquisition again, after a lost reply: the same answer.
local mine = tonumber(redis.call('ZSCORE', KEYS[2], ARGV[1]) or 0)
local fence = tonumber(redis.call('HGET', KEYS[1], 'fence') or 0)
if mine > now then return {1, tonumber(redis.call('HGET', KEYS[1], ARGV[1]) or 0), mine - now, ARGV[3]} end
if mine ~= 0 then return {-1, fence, 0, ''} end

local limit = tonumber(ARGV[5])
local taken = redis.call('ZCOUNT', KEYS[2], string.format('%.0f', now + 1), '+inf')
local place = ARGV[4] ~= '' and redis.call('HGET', KEYS[1], ARGV[4])
if taken >= limit then
  if ARGV[4] ~= '' and not place then
    place = string.format('%.0f', redis.call('HINCRBY', KEYS[1], 'tail', 1))
    redis.call('HSET', KEYS[1], place, ARGV[4], ARGV[4], place)
  end
  local first = redis.call('ZRANGEBYSCORE', KEYS[2], string.format('%.0f', now + 1), '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
  local token = redis.call('HGET', KEYS[1], first[1]) or '0'
  return {0, tonumber(token), first[2] - now, redis.call('HGET', KEYS[1], token) or ''}
end

fence = math.max(fence + 1, now)
local token = string.format('%.0f', fence)
redis.call('ZADD', KEYS[2], string.format('%.0f', now + ARGV[2]), ARGV[1])
redis.call('HSET', KEYS[1], 'fence', token, ARGV[1], token)
if ARGV[3] ~= '' then redis.call('HSET', KEYS[1], token, ARGV[3]) end
-- Both keys outlive the last permit and the fence by a minute, so that fences go
-- on rising when the clock of a new primary is behind.
local last = redis.call('ZREVRANGE', KEYS[2], 0, 0, 'WITHSCORES')
local keep_ms = string.format('%.0f', math.floor((math.max(tonumber(last[2]), fence) - now) / 1000) + 60000)
redis.call('PEXPIRE', KEYS[1], keep_ms)
redis.call('PEXPIRE', KEYS[2], keep_ms)

local ends = redis.call('HMGET', KEYS[1], 'head', 'tail')
local head, tail = tonumber(ends[1] or 0), tonumber(ends[2] or 0)
if place then -- the last in the queue moves there, as in part_leave.lua
  if place ~= ends[2] then
    local moved = redis.call('HGET', KEYS[1], ends[2])
    redis.call('HSET', KEYS[1], place, moved, moved, place)
  end
  redis.call('HDEL', KEYS[1], ends[2], ARGV[4])
  tail = redis.call('HINCRBY', KEYS[1], 'tail', -1)
end
-- This waiter may have been woken for more permits than its own.
local stop, woken = head, 0
if ARGV[4] ~= '' and taken + 1 < limit then stop = math.min(tail, head + 64) end
while woken == 0 and head < stop do
  head = head + 1
  local first = string.format('%.0f', head)
  local waiter = redis.call('HGET', KEYS[1], first)
  redis.call('HDEL', KEYS[1], first, waiter)
  local publish, channel = string.match(waiter, '^(%u+) (.*)$')
  -- Both commands are named, so that the engine sees that the script keeps to its keys.
  woken = publish == 'SPUBLISH' and redis.call('SPUBLISH', channel, KEYS[1]) or redis.call('PUBLISH', channel, KEYS[1])
end
if ends[2] and head == tail then
  redis.call('HDEL', KEYS[1], 'head', 'tail')
elseif stop > 0 then
  redis.call('HSET', KEYS[1], 'head', string.format('%.0f', head))
end
return {1, fence, tonumber(ARGV[2]), ARGV[3]}
