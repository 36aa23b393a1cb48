-- rw_read.lua: join the readers of a lock, or found a group of them, unless a writer holds or claims it.
-- KEYS[1] lease   hash    {<name>}:lock, fields as doc.go and rwmutex.go say
-- KEYS[2] readers zset    {<name>}:readers, scores as rwmutex.go says
-- KEYS[3] labels  hash    {<name>}:labels, of the readers: since when, a blank, and the label, by id
-- ARGV[1] id      bytes   names this acquisition, made by the client
-- ARGV[2] ttl_us  integer > 0
-- ARGV[3] label   bytes   shown to people, may be empty
-- ARGV[4] waiter  bytes   PUBLISH or SPUBLISH, a blank, the channel to wake; empty: don't queue
-- ARGV[5] group   bytes   names the group of readers that this one founds, if it does
-- Returns {status 1 acquired|0 busy|-1 this id is over, fence integer, ttl_us integer, label bytes}
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local held = redis.call('HMGET', KEYS[1], 'id', 'until', 'fence', 'label', 'shared', 'claim', 'claim_fence', 'head', 'tail', 'fair_first')
local expiry = tonumber(held[2] or 0)
local fence = tonumber(held[3] or 0)
local shared = expiry > now and held[1] == held[5]
local mine = tonumber(redis.call('ZSCORE', KEYS[2], ARGV[1]) or 0)

-- The same acquisition again, after a lost reply: the same answer.
if mine > now and shared then return {1, fence, mine - now, ARGV[3]} end
if mine ~= 0 then return {-1, fence, 0, ''} end

-- Fair waiters have 3 s to come, as in acquire.lua.
if held[10] and expiry <= now then expiry = expiry + 3000000 end

local place = ARGV[4] ~= '' and redis.call('HGET', KEYS[1], ARGV[4])
local head, tail = tonumber(held[8] or 0), tonumber(held[9] or 0)
local claimed = tonumber(held[6] or 0) > now and held[7] == held[3]
local busy = claimed or expiry > now and not shared
-- If this waiter was woken, the next one in the queue can get in too; or can get in
-- because this one leaves the lock to the writer that claims it.
local chain = ARGV[4] ~= '' and (not busy or claimed and expiry <= now)

if not busy then
  if not shared then
    redis.call('ZREMRANGEBYSCORE', KEYS[2], '(0', '+inf')
    redis.call('DEL', KEYS[3])
    if fence == 0 then fence = now end
    redis.call('HSET', KEYS[1], 'id', ARGV[5], 'shared', ARGV[5], 'label', ARGV[3], 'fence', string.format('%.0f', fence))
    expiry = 0
  end
  -- Readers that died while others stayed, a few at a time.
  for _, old in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], 0, string.format('%.0f', now), 'LIMIT', 0, 32)) do
    redis.call('HDEL', KEYS[3], old)
    redis.call('ZADD', KEYS[2], string.format('%.0f', -2 * now), old)
  end
  local over = redis.call('ZCOUNT', KEYS[2], '-inf', '(0')
  if over > 128 then redis.call('ZREMRANGEBYRANK', KEYS[2], 128, string.format('%.0f', over - 1)) end

  expiry = math.max(expiry, now + ARGV[2])
  redis.call('HSET', KEYS[1], 'until', string.format('%.0f', expiry))
  redis.call('ZADD', KEYS[2], string.format('%.0f', now + ARGV[2]), ARGV[1])
  redis.call('HSET', KEYS[3], ARGV[1], table.concat({string.format('%.0f', now), ARGV[3]}, ' '))
  local keep_ms = string.format('%.0f', math.floor((math.max(expiry, fence) - now) / 1000) + 60000)
  redis.call('PEXPIRE', KEYS[1], keep_ms)
  redis.call('PEXPIRE', KEYS[2], keep_ms)
  redis.call('PEXPIRE', KEYS[3], keep_ms)
  if place then -- the last in the queue moves there, as in part_leave.lua
    if place ~= held[9] then
      local last = redis.call('HGET', KEYS[1], held[9])
      redis.call('HSET', KEYS[1], place, last, last, place)
    end
    redis.call('HDEL', KEYS[1], held[9], ARGV[4])
    tail = redis.call('HINCRBY', KEYS[1], 'tail', -1)
  end
end

local stop, woken = head, 0
if chain then stop = math.min(tail, head + 64) end
while woken == 0 and head < stop do
  local first = string.format('%.0f', head + 1)
  local waiter = redis.call('HGET', KEYS[1], first)
  if waiter == ARGV[4] then break end -- in its place still: nobody has woken it
  redis.call('HDEL', KEYS[1], first, waiter)
  head = head + 1
  local publish, channel = string.match(waiter, '^(%u+) (.*)$')
  -- Both commands are named, so that the engine sees that the script keeps to its keys.
  woken = publish == 'SPUBLISH' and redis.call('SPUBLISH', channel, KEYS[1]) or redis.call('PUBLISH', channel, KEYS[1])
end
if busy and ARGV[4] ~= '' and not place then
  tail = tail + 1
  place = string.format('%.0f', tail)
  redis.call('HSET', KEYS[1], place, ARGV[4], ARGV[4], place, 'tail', place)
end
if held[9] and head == tail then
  redis.call('HDEL', KEYS[1], 'head', 'tail')
elseif head > 0 then
  redis.call('HSET', KEYS[1], 'head', string.format('%.0f', head))
end

if not busy then return {1, fence, tonumber(ARGV[2]), ARGV[3]} end
if claimed and (shared or expiry <= now) then return {0, fence, held[6] - now, ''} end
return {0, fence, expiry - now, held[4]}
