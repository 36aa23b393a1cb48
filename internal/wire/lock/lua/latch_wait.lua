-- latch_wait.lua: queue for the wake-up at zero; once it is zero, wake the next.
-- KEYS[1] latch  hash  {<name>}:latch, fields as latch.go says
-- ARGV[1] waiter bytes PUBLISH or SPUBLISH, a blank, the channel to wake; empty: don't queue
-- ARGV[2] leave  0|1   1: leave the queue
-- Returns {left integer, -1 when it is not set; ttl_ms integer, of the latch}
local ends = redis.call('HMGET', KEYS[1], 'head', 'tail', 'left')
if not ends[3] then return {-1, 0} end
local left = tonumber(ends[3])
local head, tail = tonumber(ends[1] or 0), tonumber(ends[2] or 0)
local place = ARGV[1] ~= '' and redis.call('HGET', KEYS[1], ARGV[1])
local ttl_ms = redis.call('PTTL', KEYS[1])

if place and (ARGV[2] == '1' or left == 0) then
  -- The last in the queue moves to its place, as in part_leave.lua.
  if place ~= ends[2] then
    local last = redis.call('HGET', KEYS[1], ends[2])
    redis.call('HSET', KEYS[1], place, last, last, place)
  end
  redis.call('HDEL', KEYS[1], ends[2], ARGV[1])
  tail = redis.call('HINCRBY', KEYS[1], 'tail', -1)
elseif ARGV[1] ~= '' and ARGV[2] == '0' and left > 0 and not place then
  place = string.format('%.0f', redis.call('HINCRBY', KEYS[1], 'tail', 1))
  redis.call('HSET', KEYS[1], place, ARGV[1], ARGV[1], place)
end
if left > 0 then return {left, ttl_ms} end

-- Each woken waiter wakes two more, so that all of them know soon.
local stop, woken = math.min(tail, head + 64), 0
while woken < 2 and head < stop do
  head = head + 1
  local first = string.format('%.0f', head)
  local waiter = redis.call('HGET', KEYS[1], first)
  redis.call('HDEL', KEYS[1], first, waiter)
  local publish, channel = string.match(waiter, '^(%u+) (.*)$')
  -- Both commands are named, so that the engine sees that the script keeps to its keys.
  woken = woken + (publish == 'SPUBLISH' and redis.call('SPUBLISH', channel, KEYS[1]) or redis.call('PUBLISH', channel, KEYS[1]))
end
if ends[2] then redis.call('HSET', KEYS[1], 'head', string.format('%.0f', head)) end
return {left, ttl_ms}
