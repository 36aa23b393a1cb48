-- fair.lua: take the lease in the order of the queue, else queue for it.
-- KEYS[1] lease   hash    {<name>}:lock, fields as doc.go and fair.go say
-- ARGV[1] id      bytes   names this acquisition, made by the client
-- ARGV[2] ttl_us  integer > 0
-- ARGV[3] keep_ms integer the ttl and a minute: how long the key lives
-- ARGV[4] label   bytes   shown to people, may be empty
-- ARGV[5] waiter  bytes   PUBLISH or SPUBLISH, a blank, the channel to wake
-- ARGV[6] node    bytes   a '=' and the id
-- ARGV[7] payload bytes   what is published when the lock is here; without its last byte: when this is the next
-- Returns {status 1 acquired|0 queued|-1 this id is over, fence integer, ttl_us integer: own, or after which to ask again, label bytes}
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local id, me = ARGV[1], ARGV[6]
local held = redis.call('HMGET', KEYS[1], 'id', 'until', 'fence', 'last', 'void', 'granted', 'granted_to', 'fair_first', me, 'dead')
local expiry = tonumber(held[2] or 0)
local fence = tonumber(held[3] or 0)
local mine, first, queued, dead = held[1] == id, held[8], held[9], held[10]
local layout = '>I2c0I2c0I2c0I2c0' -- waiter, payload, the nodes before and behind

-- A grant is good until another acquires, which raises the fence. Its waiter has
-- not said yet that it lives: it takes the grant or, too late, queues again.
local granted = held[6] and held[6] == held[3]
if mine and not granted and expiry > now then return {1, fence, expiry - now, ARGV[4]} end
if mine and not granted or held[4] == id or held[5] == id then return {-1, fence, 0, ''} end
if dead == ARGV[5] then
  redis.call('HDEL', KEYS[1], 'dead')
  dead = false
end
local take = mine and expiry > now
if granted and not mine and expiry <= now then
  dead = held[7]
  redis.call('HSET', KEYS[1], 'dead', dead)
end

-- Free because its holder died: the first in the queue is next, as in release.lua.
-- part: grant

if take or expiry <= now and (not first or first == me) then
  if first == me then
    local _, _, _, behind = struct.unpack(layout, queued)
    redis.call('HDEL', KEYS[1], me)
    if behind ~= '' then
      redis.call('HSET', KEYS[1], 'fair_first', behind)
      redis.call('HINCRBY', KEYS[1], 'fair', -1)
    else
      redis.call('HDEL', KEYS[1], 'fair', 'fair_first', 'fair_last')
    end
  end
  if not take then fence = math.max(fence + 1, now) end
  redis.call('HSET', KEYS[1], 'id', id, 'until', string.format('%.0f', now + ARGV[2]),
    'fence', string.format('%.0f', fence), 'label', ARGV[4])
  redis.call('HDEL', KEYS[1], 'granted', 'granted_to')
  local keep_ms = ARGV[3]
  if fence > now then keep_ms = keep_ms + math.floor((fence - now) / 1000) end
  redis.call('PEXPIRE', KEYS[1], keep_ms)
  return {1, fence, tonumber(ARGV[2]), ARGV[4]}
end

if not queued then
  local last = redis.call('HGET', KEYS[1], 'fair_last') or ''
  if last ~= '' then
    local waiter, payload, before = struct.unpack(layout, redis.call('HGET', KEYS[1], last))
    redis.call('HSET', KEYS[1], last, struct.pack(layout, #waiter, waiter, #payload, payload, #before, before, #me, me))
  else
    redis.call('HSET', KEYS[1], 'fair_first', me)
    first = me
  end
  redis.call('HSET', KEYS[1], me, struct.pack(layout, #ARGV[5], ARGV[5], #ARGV[7], ARGV[7], #last, last, 0, ''), 'fair_last', me)
  redis.call('HINCRBY', KEYS[1], 'fair', 1)
end
-- All waiters together check every 3 s for a dead waiter that nobody watches.
local again = math.max(expiry - now, 1000)
if first ~= me then again = math.min(again, redis.call('HGET', KEYS[1], 'fair') * 3000000) end
return {0, fence, again, ''}
