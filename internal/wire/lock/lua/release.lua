-- release.lua: end an acquisition, held or only tried, and wake one waiter if the lock is free.
-- KEYS[1] lease  hash  {<name>}:lock, fields as doc.go says
-- ARGV[1] id     bytes names the acquisition, empty: only leave the queue
-- ARGV[2] waiter bytes leaves the queue, as in acquire.lua, or as the node of fair.lua; may be empty
-- ARGV[3] void   0|1|2 1: the acquire may be still under way, void it; 2: end only what was granted and not taken
-- Returns {released 0|1}: 1 also when it ran out and nobody has had the lock since
local held = redis.call('HMGET', KEYS[1], 'id', 'until', 'fence', 'tail', 'fair_first')

-- The acquisition with this id has the lock, or was the last to have it. So the time
-- doesn't matter, nor does the key's expiry, a minute after the end of the lease,
-- unless the lease was long.
local mine = held[1] == ARGV[1] and held[2] ~= '0'
if mine and ARGV[3] == '2' and redis.call('HGET', KEYS[1], 'granted') ~= held[3] then return {0} end
local long = mine and held[2] - held[3] > 60000000
if mine then
  -- last marks an acquisition that is over: a repeated release gets the same
  -- answer, and a copy of its acquire that is still under way does nothing.
  redis.call('HSET', KEYS[1], 'until', 0, 'last', ARGV[1])
  -- A waiter that gives its grant back has answered: its process is not dead.
  if ARGV[3] ~= '0' then redis.call('HDEL', KEYS[1], 'granted', 'granted_to') end
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
  local waiter = ARGV[2]
  -- part: leave
end

local first = held[5]
local layout = '>I2c0I2c0I2c0I2c0' -- as in fair.lua
local node = first and string.sub(ARGV[2], 1, 1) == '=' and redis.call('HGET', KEYS[1], ARGV[2])
if node then -- it leaves the queue of fair waiters
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
local dead = first and expiry <= now and redis.call('HGET', KEYS[1], 'dead')
local me
-- part: grant
if expiry > now or head == tail then return {released} end
-- part: wake
return {released}
