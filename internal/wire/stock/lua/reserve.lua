-- reserve.lua: take n of an item for a time, unless fewer are left.
-- KEYS[1] stock   hash    {<name>}:stock, fields as doc.go says
-- KEYS[2] due     zset    {<name>}:due, the reservations by when they run out
-- KEYS[3] over    zset    {<name>}:over, ids that are over, as doc.go says
-- ARGV[1] id      bytes   names the reservation: a colon, and what the client made
-- ARGV[2] n       integer > 0
-- ARGV[3] ttl_us  integer > 0
-- ARGV[4] keep_us integer how long an id that is over is remembered
-- Returns {status 1 reserved|0 too few|-1 committed|-2 cancelled|-3 ran out|-9 repeat this, n integer, ttl_us integer, available integer, reserved integer, next_us integer: none runs out before, 0 if none is held}
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local n = tonumber(ARGV[2])
local stock = redis.call('HMGET', KEYS[1], 'total', 'available', 'sold', 'next', 'tidy', ARGV[1])
local available = tonumber(stock[2] or 0)
local unsold = tonumber(stock[1] or 0) - tonumber(stock[3] or 0)

-- The same reservation again, after a lost reply: the same answer. One that is
-- over takes nothing when a late copy of it arrives. One that has run out ends
-- before anybody is told so: it must not hold again after the clock steps back.
local had = 0
if stock[6] then
  local left = tonumber(string.sub(stock[6], -16)) - now
  had = tonumber(string.sub(stock[6], 1, -17))
  if left > 0 then return {1, had, left, available, unsold - available, 0} end
end
local over = tonumber(redis.call('ZSCORE', KEYS[3], ARGV[1]) or 0)
if over > now then
  local how = over % 10
  if how == 4 then how = 2 end
  return {-how, 0, 0, available, unsold - available, 0}
end

-- Return expired reservations: as many as could be needed, because each holds at least
-- one unit, and at least two, more than the one that this call adds. Nothing expires
-- before next.
local next_out, gone = tonumber(stock[4] or 0), {}
if had > 0 then
  gone[1] = ARGV[1]
  available = available + had
  redis.call('HDEL', KEYS[1], ARGV[1])
  redis.call('ZREM', KEYS[2], ARGV[1])
  redis.call('ZADD', KEYS[3], string.format('%.0f', math.floor((now + ARGV[4]) / 10) * 10 + 3), ARGV[1])
  redis.call('HSET', KEYS[1], 'available', string.format('%.0f', available))
elseif next_out > 0 and next_out <= now then
  local batch = math.min(math.max(n - available, 2), 512)
  local due = redis.call('ZRANGE', KEYS[2], 0, batch, 'WITHSCORES')
  local marks, mark = {}, string.format('%.0f', math.floor((now + ARGV[4]) / 10) * 10 + 3)
  local i = 1
  while i < #due and #gone < batch and tonumber(due[i + 1]) <= now do
    gone[#gone + 1] = due[i]
    marks[i], marks[i + 1] = mark, due[i]
    i = i + 2
  end
  next_out = tonumber(due[i + 1] or 0)
  if #gone > 0 then
    for _, held in ipairs(redis.call('HMGET', KEYS[1], unpack(gone))) do
      if held then available = available + tonumber(string.sub(held, 1, -17)) end
    end
    redis.call('HDEL', KEYS[1], unpack(gone))
    redis.call('ZREM', KEYS[2], unpack(gone))
    redis.call('ZADD', KEYS[3], unpack(marks))
  end
  redis.call('HSET', KEYS[1], 'available', string.format('%.0f', available), 'next', string.format('%.0f', next_out))
end
if #gone > 0 then
  -- Once a minute the ids are forgotten whose hour is over, and until when the
  -- rest is kept is put off.
  local tidy = tonumber(stock[5] or 0)
  if tidy <= now or tidy > now + 60000000 then
    local most = math.max(2 * #gone, 64)
    local old = redis.call('ZRANGEBYSCORE', KEYS[3], '-inf', string.format('%.0f', now), 'LIMIT', 0, most)
    if #old > 0 then redis.call('ZREM', KEYS[3], unpack(old)) end
    redis.call('PEXPIRE', KEYS[3], math.ceil(ARGV[4] / 1000) + 60000)
    tidy = now
    if #old < most then tidy = now + 60000000 end
    redis.call('HSET', KEYS[1], 'tidy', string.format('%.0f', tidy))
  end
end
if had > 0 then return {-3, 0, 0, available, unsold - available, 0} end
if available < n then
  local wait = 0
  if unsold > available then wait = math.max(next_out - now, 0) end
  return {#gone == 512 and -9 or 0, 0, 0, available, unsold - available, wait}
end

available = available - n
local runs_out = now + ARGV[3]
local text = string.format('%.0f', runs_out)
redis.call('HSET', KEYS[1], 'available', string.format('%.0f', available),
  ARGV[1], string.format('%.0f%016.0f', n, runs_out))
redis.call('ZADD', KEYS[2], text, ARGV[1])
if next_out == 0 or runs_out < next_out then redis.call('HSET', KEYS[1], 'next', text) end
return {1, n, tonumber(ARGV[3]), available, unsold - available, 0}
