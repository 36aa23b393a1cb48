-- release.lua: end an acquisition, held or only tried, and wake one waiter if the lock is free.
-- KEYS[1] lease  hash  {<name>}:lock, fields as doc.go says
-- ARGV[1] id     bytes names the acquisition, empty: only leave the queue
-- ARGV[2] waiter bytes leaves the queue, as in acquire.lua, or as the node of fair.lua; may be empty
-- ARGV[3] void   0|1|2 1: the acquire may be still under way, void it; 2: end only what was granted and not taken
-- Returns {released 0|1}: 1 also when it ran out and nobody has had the lock since
local held = redis.call('HMGET', KEYS[1], 'id', 'until', 'fence', 'tail', 'fair_first')

-- Whose id this is has the lock, or had it last: then nobody has had it since. So
-- the time doesn't matter. Nor does when the key expires, a minute after the end
-- of the lease, unless that was long.
local mine = held[1] == ARGV[1] and held[2] ~= '0'
if mine and ARGV[3] == '2' and redis.call('HGET', KEYS[1], 'granted') ~= held[3] then return {0} end
local long = mine and held[2] - held[3] > 60000000
if mine then
  -- last marks an acquisition that is over: the same release again is answered
  -- as this one, and a copy of its acquire that is still under way does nothing.
  redis.call('HSET', KEYS[1], 'until', 0, 'last', ARGV[1])
  if not held[4] and not held[5] and not long then return {1} end
end

local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local expiry = tonumber(held[2] or 0)
local fence = tonumber(held[3] or 0)
local rest = redis.call('HMGET', KEYS[1], 'last', 'head')
local head, tail = tonumber(rest[2] or 0), tonumber(held[4] or 0)
local keep_ms = 60000
if fence > now then keep_ms = keep_ms + math.floor((fence - now) / 1000) end
local released = 0
if mine then
  if long then redis.call('PEXPIRE', KEYS[1], keep_ms) end
  expiry, released = 0, 1
elseif rest[1] == ARGV[1] then
  released = 1
elseif ARGV[3] == '1' then
  redis.call('HSET', KEYS[1], 'void', ARGV[1])
  if expiry <= now then redis.call('PEXPIRE', KEYS[1], keep_ms) end
end

if ARGV[2] ~= '' and string.sub(ARGV[2], 1, 1) ~= '=' then
  local place = redis.call('HGET', KEYS[1], ARGV[2])
  if place then
    -- Its place is for the last in the queue. So there are no gaps, which a
    -- release would have to search, and nobody who stays falls back.
    if place ~= held[4] then
      local last = redis.call('HGET', KEYS[1], held[4])
      redis.call('HSET', KEYS[1], place, last, last, place)
    end
    redis.call('HDEL', KEYS[1], held[4], ARGV[2])
    tail = redis.call('HINCRBY', KEYS[1], 'tail', -1)
    if tail == head then redis.call('HDEL', KEYS[1], 'head', 'tail') end
  end
end

local first, tries = held[5], 0
local layout = '>I2c0I2c0I2c0I2c0' -- as in fair.lua
local node = first and string.sub(ARGV[2], 1, 1) == '=' and redis.call('HGET', KEYS[1], ARGV[2])
if node then -- it leaves the list of those who ask in order
  local _, _, before, behind = struct.unpack(layout, node)
  redis.call('HDEL', KEYS[1], ARGV[2])
  if first ~= ARGV[2] then
    local waiter, payload, far = struct.unpack(layout, redis.call('HGET', KEYS[1], before))
    redis.call('HSET', KEYS[1], before, struct.pack(layout, #waiter, waiter, #payload, payload, #far, far, #behind, behind))
    if behind == '' then redis.call('HSET', KEYS[1], 'fair_last', before) end
  end
  if behind ~= '' then
    local waiter, payload, _, far = struct.unpack(layout, redis.call('HGET', KEYS[1], behind))
    redis.call('HSET', KEYS[1], behind, struct.pack(layout, #waiter, waiter, #payload, payload, #before, before, #far, far))
  end
  if first == ARGV[2] then
    first = behind ~= '' and behind
    if first then redis.call('HSET', KEYS[1], 'fair_first', first) end
  end
  redis.call('HINCRBY', KEYS[1], 'fair', -1)
  if not first then redis.call('HDEL', KEYS[1], 'fair', 'fair_first', 'fair_last') end
end
-- Free, and some ask in order: the lock goes to the first of them whose process
-- lives, who has 3 s to say that it does. The one behind it watches that.
local dead = first and expiry <= now and redis.call('HGET', KEYS[1], 'dead')
while first and expiry <= now and tries < 64 do
  tries = tries + 1
  local waiter, payload, _, behind = struct.unpack(layout, redis.call('HGET', KEYS[1], first))
  redis.call('HDEL', KEYS[1], first)
  if behind ~= '' then
    redis.call('HSET', KEYS[1], 'fair_first', behind)
    redis.call('HINCRBY', KEYS[1], 'fair', -1)
  else
    redis.call('HDEL', KEYS[1], 'fair', 'fair_first', 'fair_last')
  end
  local publish, channel = string.match(waiter, '^(%u+) (.*)$')
  if waiter ~= dead and redis.call(publish, channel, payload) > 0 then
    fence = math.max(fence + 1, now)
    expiry = now + 3000000
    local token = string.format('%.0f', fence)
    redis.call('HSET', KEYS[1], 'id', string.sub(first, 2), 'until', string.format('%.0f', expiry), 'fence', token,
      'label', '', 'granted', token, 'granted_to', waiter)
    redis.call('PEXPIRE', KEYS[1], string.format('%.0f', 63000 + math.floor((fence - now) / 1000)))
    if behind ~= '' then
      waiter, payload = struct.unpack(layout, redis.call('HGET', KEYS[1], behind))
      publish, channel = string.match(waiter, '^(%u+) (.*)$')
      redis.call(publish, channel, string.sub(payload, 1, -2))
    end
  end
  first = behind ~= '' and behind
end
if expiry > now or head == tail then return {released} end

-- Free: wake the first in the queue. One whose process is gone has no
-- subscriber, so the next is tried; after 64 of them the rest find out by
-- themselves when the lease that they saw ends.
local stop, woken = math.min(tail, head + 64), 0
while woken == 0 and head < stop do
  head = head + 1
  local place = string.format('%.0f', head)
  local waiter = redis.call('HGET', KEYS[1], place)
  redis.call('HDEL', KEYS[1], place, waiter)
  local publish, channel = string.match(waiter, '^(%u+) (.*)$')
  woken = redis.call(publish, channel, KEYS[1])
end
if head == tail then
  redis.call('HDEL', KEYS[1], 'head', 'tail')
else
  redis.call('HSET', KEYS[1], 'head', string.format('%.0f', head))
end
return {released}
