-- count.lua: count an item, and change how many there are in all.
-- KEYS[1] stock   hash    {<name>}:stock, fields as doc.go says
-- KEYS[2] due     zset    {<name>}:due, the reservations by when they run out
-- KEYS[3] over    zset    {<name>}:over, ids that are over, as doc.go says
-- ARGV[1] change  add|set
-- ARGV[2] n       integer of set >= 0
-- ARGV[3] max     integer how many there may be in all
-- ARGV[4] keep_us integer how long an id that is over is remembered
-- Returns {status 1 done|0 fewer than that are left|-1 more than max, total integer, available integer, sold integer, reservations integer, expired integer: not back yet, next_us integer: until one runs out, 0 if none}
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local stock = redis.call('HMGET', KEYS[1], 'total', 'available', 'sold', 'tidy')
local total, available = tonumber(stock[1] or 0), tonumber(stock[2] or 0)

-- Return expired reservations, as in reserve.lua.
local due = redis.call('ZRANGE', KEYS[2], 0, 512, 'WITHSCORES')
local gone, marks, mark = {}, {}, string.format('%.0f', math.floor((now + ARGV[4]) / 10) * 10 + 3)
local i = 1
while i < #due and #gone < 512 and tonumber(due[i + 1]) <= now do
  gone[#gone + 1] = due[i]
  marks[i], marks[i + 1] = mark, due[i]
  i = i + 2
end
local next_out = tonumber(due[i + 1] or 0)
if #gone > 0 then
  for _, held in ipairs(redis.call('HMGET', KEYS[1], unpack(gone))) do
    if held then available = available + tonumber(string.sub(held, 1, -17)) end
  end
  redis.call('HDEL', KEYS[1], unpack(gone))
  redis.call('ZREM', KEYS[2], unpack(gone))
  redis.call('ZADD', KEYS[3], unpack(marks))
  redis.call('HSET', KEYS[1], 'available', string.format('%.0f', available), 'next', string.format('%.0f', next_out))
  -- Once a minute the ids are forgotten whose hour is over, and until when the
  -- rest is kept is put off.
  local tidy = tonumber(stock[4] or 0)
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

local change = tonumber(ARGV[2])
if ARGV[1] == 'set' then change = change - total end
local status = 1
if total + change > tonumber(ARGV[3]) then
  status = -1
elseif available + change < 0 then
  status = 0
elseif change ~= 0 then
  total, available = total + change, available + change
  redis.call('HSET', KEYS[1], 'total', string.format('%.0f', total), 'available', string.format('%.0f', available))
end
local expired = 0
if #gone == 512 then expired = redis.call('ZCOUNT', KEYS[2], '-inf', string.format('%.0f', now)) end
return {status, total, available, tonumber(stock[3] or 0), redis.call('ZCARD', KEYS[2]) - expired, expired, math.max(next_out - now, 0)}
