-- sem_release.lua: end an acquisition, held, only tried or by force, and wake one waiter for the permit.
-- KEYS[1] semaphore hash    {<name>}:sem, fields as semaphore.go says
-- KEYS[2] permits   zset    {<name>}:permits, scores as semaphore.go says
-- ARGV[1] permit    bytes   a '=' and the id that names the acquisition, empty: only leave the queue
-- ARGV[2] waiter    bytes   leaves the queue, as in sem_acquire.lua; may be empty
-- ARGV[3] how       0|1|2   1: the acquire may be still under way, void it; 2: force
-- ARGV[4] limit     integer who leaves wakes the next if fewer permits than these are taken
-- Returns {released 0|1}
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local released, wake = 0, false

-- An acquisition that is over is remembered: a repeated release gets the same answer,
-- and a copy of its acquire that is still under way does nothing.
local mine = ARGV[1] ~= '' and tonumber(redis.call('ZSCORE', KEYS[2], ARGV[1]) or 0) or 0
local over = nil
if mine > now then
  local token = redis.call('HGET', KEYS[1], ARGV[1])
  redis.call('HDEL', KEYS[1], ARGV[1], token or '')
  over, released, wake = -2 * now - 1, 1, true
  -- By force, as if it had run out: its own release finds nothing.
  if ARGV[3] == '2' then over = -2 * now end
elseif mine < 0 and ARGV[3] == '2' then
  released = 1 - mine % 2 -- a repeated release gets the first answer
elseif mine < 0 then
  released = mine % 2
elseif mine == 0 and ARGV[3] == '1' then
  over = -2 * now
end
if over then
  redis.call('ZADD', KEYS[2], string.format('%.0f', over), ARGV[1])
  local n = redis.call('ZCOUNT', KEYS[2], '-inf', '(0')
  if n > 128 then redis.call('ZREMRANGEBYRANK', KEYS[2], 128, string.format('%.0f', n - 1)) end
  local last = redis.call('ZREVRANGE', KEYS[2], 0, 0, 'WITHSCORES')
  last = math.max(tonumber(last[2]), tonumber(redis.call('HGET', KEYS[1], 'fence') or 0), now)
  local keep_ms = string.format('%.0f', math.floor((last - now) / 1000) + 60000)
  redis.call('PEXPIRE', KEYS[1], keep_ms)
  redis.call('PEXPIRE', KEYS[2], keep_ms)
end

local ends = redis.call('HMGET', KEYS[1], 'head', 'tail')
local head, tail = tonumber(ends[1] or 0), tonumber(ends[2] or 0)
if ARGV[2] ~= '' then
  wake = wake or redis.call('ZCOUNT', KEYS[2], string.format('%.0f', now + 1), '+inf') < tonumber(ARGV[4])
  local waiter = ARGV[2]
  -- part: leave
end
if not wake or head == tail then return {released} end
-- part: wake
return {released}
