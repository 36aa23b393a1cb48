-- acquire.lua: take the lease if nobody holds it, else queue for a wake-up.
-- KEYS[1] lease   hash    {<name>}:lock, fields as doc.go says
-- A writer of an RWMutex also names the keys of its release, which this script doesn't use.
-- ARGV[1] id      bytes   names this acquisition, made by the client
-- ARGV[2] ttl_us  integer > 0
-- ARGV[3] keep_ms integer the ttl and a minute: how long the key lives
-- ARGV[4] label   bytes   shown to people, may be empty
-- ARGV[5] waiter  bytes   PUBLISH or SPUBLISH, a blank, the channel to wake; empty: don't queue
-- Returns {status 1 acquired|0 held by another|-1 this id is over, fence integer, ttl_us integer, label bytes}
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local held = redis.call('HMGET', KEYS[1], 'id', 'until', 'fence', 'last', 'void', 'fair_first')
local expiry = tonumber(held[2] or 0)
local fence = tonumber(held[3] or 0)

-- The same acquisition again, after a lost reply: the same answer. The acquisition that
-- was released, ran out or was voided last doesn't come back when a late copy arrives.
if held[1] == ARGV[1] and expiry > now then return {1, fence, expiry - now, ARGV[4]} end
if held[1] == ARGV[1] or held[4] == ARGV[1] or held[5] == ARGV[1] then return {-1, fence, 0, ''} end

-- After the death of a holder, fair waiters (fair.lua) have 3 s to come.
if held[6] and expiry <= now then expiry = expiry + 3000000 end

local place = ARGV[5] ~= '' and redis.call('HGET', KEYS[1], ARGV[5])
if expiry > now then
  if ARGV[5] ~= '' and not place then
    place = string.format('%.0f', redis.call('HINCRBY', KEYS[1], 'tail', 1))
    redis.call('HSET', KEYS[1], place, ARGV[5], ARGV[5], place)
  end
  return {0, fence, expiry - now, redis.call('HGET', KEYS[1], 'label')}
end

fence = math.max(fence + 1, now)
redis.call('HSET', KEYS[1], 'id', ARGV[1], 'until', string.format('%.0f', now + ARGV[2]),
  'fence', string.format('%.0f', fence), 'label', ARGV[4])
-- The key outlives the lease and the fence by a minute, so that fences go on
-- rising when the clock of a new primary is behind.
local keep_ms = ARGV[3]
if fence > now then keep_ms = keep_ms + math.floor((fence - now) / 1000) end
redis.call('PEXPIRE', KEYS[1], keep_ms)
if place then -- the last in the queue moves there, as in part_leave.lua
  local ends = redis.call('HMGET', KEYS[1], 'head', 'tail')
  if place ~= ends[2] then
    local last = redis.call('HGET', KEYS[1], ends[2])
    redis.call('HSET', KEYS[1], place, last, last, place)
  end
  redis.call('HDEL', KEYS[1], ends[2], ARGV[5])
  if redis.call('HINCRBY', KEYS[1], 'tail', -1) == tonumber(ends[1] or 0) then
    redis.call('HDEL', KEYS[1], 'head', 'tail')
  end
end
return {1, fence, tonumber(ARGV[2]), ARGV[4]}
