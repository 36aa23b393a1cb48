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
local stock = redis.call('HMGET', KEYS[1], 'total', 'available', 'sold')
local total, available = tonumber(stock[1] or 0), tonumber(stock[2] or 0)

-- What ran out comes back, as in reserve.lua.
local due = redis.call('ZRANGE', KEYS[2], 0, 512, 'WITHSCORES')
local gone, next_us, i = {}, 0, 1
while i < #due and #gone < 512 and tonumber(due[i + 1]) <= now do
  gone[#gone + 1] = due[i]
  i = i + 2
end
if i < #due then next_us = math.max(tonumber(due[i + 1]) - now, 0) end
if #gone > 0 then
  local mark = string.format('%.0f', math.floor((now + ARGV[4]) / 10) * 10 + 3)
  local marks = {}
  for k, held in ipairs(redis.call('HMGET', KEYS[1], unpack(gone))) do
    if held then available = available + tonumber(string.sub(held, 1, -17)) end
    marks[2 * k - 1], marks[2 * k] = mark, gone[k]
  end
  redis.call('HSET', KEYS[1], 'available', string.format('%.0f', available))
  redis.call('HDEL', KEYS[1], unpack(gone))
  redis.call('ZREM', KEYS[2], unpack(gone))
  local old = redis.call('ZRANGEBYSCORE', KEYS[3], '-inf', string.format('%.0f', now), 'LIMIT', 0, 2 * #gone)
  if #old > 0 then redis.call('ZREM', KEYS[3], unpack(old)) end
  redis.call('ZADD', KEYS[3], unpack(marks))
  redis.call('PEXPIRE', KEYS[3], math.ceil(ARGV[4] / 1000))
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
return {status, total, available, tonumber(stock[3] or 0), redis.call('ZCARD', KEYS[2]) - expired, expired, next_us}
