-- info.lua: read the state of an item as it is when expired reservations are back on sale. It writes nothing.
-- KEYS[1] stock hash {<name>}:stock, fields as doc.go says
-- KEYS[2] due   zset {<name>}:due, the reservations by when they run out
-- Returns {1, total integer, available integer, sold integer, reservations integer, expired integer: beyond the first 4096, not available in this reply, next_us integer: until one runs out, 0 if none}
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local stock = redis.call('HMGET', KEYS[1], 'total', 'available', 'sold')
local available = tonumber(stock[2] or 0)
local expired = redis.call('ZCOUNT', KEYS[2], '-inf', string.format('%.0f', now))
local counted = math.min(expired, 4096)
for from = 0, counted - 1, 512 do
  local ids = redis.call('ZRANGE', KEYS[2], from, math.min(from + 512, counted) - 1)
  for _, held in ipairs(redis.call('HMGET', KEYS[1], unpack(ids))) do
    if held then available = available + tonumber(string.sub(held, 1, -17)) end
  end
end
local first = redis.call('ZRANGE', KEYS[2], expired, expired, 'WITHSCORES')
return {
  1, tonumber(stock[1] or 0), available, tonumber(stock[3] or 0), redis.call('ZCARD', KEYS[2]) - expired,
  expired - counted, math.max(tonumber(first[2] or now) - now, 0),
}
