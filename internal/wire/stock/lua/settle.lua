-- settle.lua: end a reservation: what it holds is sold, or comes back.
-- KEYS[1] stock   hash    {<name>}:stock, fields as doc.go says
-- KEYS[2] due     zset    {<name>}:due, the reservations by when they run out
-- KEYS[3] over    zset    {<name>}:over, ids that are over, as doc.go says
-- ARGV[1] id      bytes   names the reservation, as in reserve.lua
-- ARGV[2] end     1|2     1 commit, 2 cancel
-- ARGV[3] keep_us integer how long an id that is over is remembered
-- Returns {end 1 committed|2 cancelled|3 ran out|0 nothing was reserved}
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local stock = redis.call('HMGET', KEYS[1], 'available', 'sold', 'tidy', ARGV[1])
local how = tonumber(ARGV[2])

if stock[4] then
  local n = tonumber(string.sub(stock[4], 1, -17))
  if tonumber(string.sub(stock[4], -16)) <= now then how = 3 end
  if how == 1 then
    redis.call('HSET', KEYS[1], 'sold', string.format('%.0f', tonumber(stock[2] or 0) + n))
  else
    redis.call('HSET', KEYS[1], 'available', string.format('%.0f', tonumber(stock[1] or 0) + n))
  end
  redis.call('HDEL', KEYS[1], ARGV[1])
  redis.call('ZREM', KEYS[2], ARGV[1])
else
  local over = tonumber(redis.call('ZSCORE', KEYS[3], ARGV[1]) or 0)
  if over > now then return {over % 10 % 4} end
  if how == 1 then return {0} end
  how = 4 -- the reserve may be still under way: then it takes nothing
end

redis.call('ZADD', KEYS[3], string.format('%.0f', math.floor((now + ARGV[3]) / 10) * 10 + how), ARGV[1])
-- Once a minute the ids are forgotten whose hour is over, as in reserve.lua.
local tidy = tonumber(stock[3] or 0)
if tidy <= now or tidy > now + 60000000 then
  local old = redis.call('ZRANGEBYSCORE', KEYS[3], '-inf', string.format('%.0f', now), 'LIMIT', 0, 64)
  if #old > 0 then redis.call('ZREM', KEYS[3], unpack(old)) end
  redis.call('PEXPIRE', KEYS[3], math.ceil(ARGV[3] / 1000) + 60000)
  tidy = now
  if #old < 64 then tidy = now + 60000000 end
  redis.call('HSET', KEYS[1], 'tidy', string.format('%.0f', tidy))
end
return {how % 4}
