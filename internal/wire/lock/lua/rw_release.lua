-- rw_release.lua: end an acquisition of a writer or a reader, held or only tried, or all with a fence, and wake one waiter if it can get in now.
-- KEYS[1] lease   hash  {<name>}:lock, fields as doc.go and rwmutex.go say
-- KEYS[2] readers zset  {<name>}:readers, scores as rwmutex.go says
-- KEYS[3] labels  hash  {<name>}:labels, of the readers: since when, a blank, and the label, by id
-- ARGV[1] id      bytes names the acquisition, empty: only leave the queue; a writer's claim ends with it; to force: the fence
-- ARGV[2] waiter  bytes leaves the queue, as in acquire.lua; may be empty
-- ARGV[3] how     0|1|2|3|4 1, 2: the acquire of a writer, a reader may be still under way, void it; 3: force; 4: release nothing
-- Returns {released 0|1}
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local held = redis.call('HMGET', KEYS[1], 'id', 'until', 'fence', 'last', 'head', 'tail', 'shared', 'claim_by', 'forced', 'fair_first')
local expiry = tonumber(held[2] or 0)
local fence = tonumber(held[3] or 0)
local head, tail = tonumber(held[5] or 0), tonumber(held[6] or 0)
local shared = expiry > now and held[1] == held[7]
local mine = ARGV[1] ~= '' and tonumber(redis.call('ZSCORE', KEYS[2], ARGV[1]) or 0) or 0
local released, over = 0, nil

-- An acquisition that is over is remembered, as in release.lua and sem_release.lua.
if ARGV[3] == '3' then
  -- As if all had run out: their own releases find nothing. The fence is
  -- remembered, so that a repeated call gets the same answer.
  if held[3] == ARGV[1] and expiry > now then
    redis.call('HSET', KEYS[1], 'until', 0, 'forced', ARGV[1])
    expiry, released = 0, 1
  elseif held[9] == ARGV[1] then
    released = 1
  end
elseif ARGV[3] == '4' then
  released = 0
elseif held[1] == ARGV[1] and expiry > now then
  redis.call('HSET', KEYS[1], 'until', 0, 'last', ARGV[1])
  expiry, released = 0, 1
elseif shared and mine > now then
  over, released = -2 * now - 1, 1
elseif held[4] == ARGV[1] then
  released = 1
elseif mine < 0 then
  released = mine % 2
elseif ARGV[3] == '1' then
  redis.call('HSET', KEYS[1], 'void', ARGV[1])
elseif ARGV[3] == '2' and mine == 0 then
  over = -2 * now
end
if over then
  redis.call('HDEL', KEYS[3], ARGV[1])
  redis.call('ZADD', KEYS[2], string.format('%.0f', over), ARGV[1])
  local n = redis.call('ZCOUNT', KEYS[2], '-inf', '(0')
  if n > 128 then redis.call('ZREMRANGEBYRANK', KEYS[2], 128, string.format('%.0f', n - 1)) end
  local last = tonumber(redis.call('ZREVRANGE', KEYS[2], 0, 0, 'WITHSCORES')[2])
  if shared then -- the lock is held as long as one reader holds it
    expiry = last
    if expiry <= now then expiry = 0 end
    redis.call('HSET', KEYS[1], 'until', string.format('%.0f', expiry))
  end
  local keep_ms = string.format('%.0f', math.floor((math.max(last, now) - now) / 1000) + 60000)
  redis.call('PEXPIRE', KEYS[2], keep_ms)
  redis.call('PEXPIRE', KEYS[3], keep_ms)
end
if released == 1 or ARGV[3] == '1' or ARGV[3] == '2' then
  redis.call('PEXPIRE', KEYS[1], string.format('%.0f', math.floor((math.max(expiry, fence, now) - now) / 1000) + 60000))
end

local wake = expiry <= now
if ARGV[1] ~= '' and held[8] == ARGV[1] then
  redis.call('HDEL', KEYS[1], 'claim', 'claim_by', 'claim_fence')
  wake = wake or shared -- readers that were kept out
end
if ARGV[2] ~= '' then
  local waiter = ARGV[2]
  -- part: leave
  if not place and ARGV[1] == '' then wake = wake or shared end -- it was woken, and does not join: the next may
end

local first, free = held[10], expiry <= now
local layout = '>I2c0I2c0I2c0I2c0' -- as in fair.lua
local dead = first and expiry <= now and redis.call('HGET', KEYS[1], 'dead')
local me
-- part: grant
if not wake or free and expiry > now or head == tail then return {released} end
-- part: wake
return {released}
