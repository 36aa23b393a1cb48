-- stats.lua: count what is in a queue.
-- KEYS[1] queue   hash    {<name>}:queue, ids to envelopes
-- KEYS[2] ready   zset    ids by rank of their lane and since when they are ready
-- KEYS[3] due     zset    ids by when they are due, in ms since 1970
-- KEYS[4] dead    zset    ids by when they died
-- KEYS[5] leases  zset    receipts by when their lease ends, in ms since 1970
-- KEYS[6] config  hash    paused, concurrency, interval_us and burst of the rate, tat_us: its theoretical arrival time
-- KEYS[7] blocked zset    see the part after
-- ARGV[1] lanes   integer how many lanes there are
-- Returns {messages, due, dead, running, oldest_ms: how long the oldest is ready, next_ms: until the next is due, -1 none,
-- paused 0|1, concurrency: 0 no limit, interval_us: 0 no limit, burst, blocked, ready of each lane, from rank 0 up}, all integers
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local config = redis.call('HMGET', KEYS[6], 'paused', 'concurrency', 'interval_us', 'burst')
local due = redis.call('ZRANGE', KEYS[3], 0, 0, 'WITHSCORES')[2]
local lanes, oldest = {}, now
for rank = 0, ARGV[1] - 1 do
  local low, high = string.format('%.0f', rank * 2251799813685248), string.format('%.0f', rank * 2251799813685248 + 2251799813685247)
  lanes[#lanes + 1] = redis.call('ZCOUNT', KEYS[2], low, high)
  -- Messages in front of all others, at 0, have no time.
  local first = redis.call('ZRANGEBYSCORE', KEYS[2], string.format('%.0f', low + 1), high, 'WITHSCORES', 'LIMIT', 0, 1)[2]
  if first then oldest = math.min(oldest, math.floor((first - low + 1577836800000000) / 1000)) end
end
return {redis.call('HLEN', KEYS[1]), redis.call('ZCARD', KEYS[3]), redis.call('ZCARD', KEYS[4]), redis.call('ZCARD', KEYS[5]),
  now - oldest, due and math.max(due - now, 0) or -1, config[1] and 1 or 0, tonumber(config[2] or 0), tonumber(config[3] or 0),
  tonumber(config[4] or 0), redis.call('ZCARD', KEYS[7]), unpack(lanes)}
