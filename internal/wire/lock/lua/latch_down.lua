-- latch_down.lua: count a latch down for one member, and wake waiters at zero.
-- KEYS[1] latch  hash  {<name>}:latch, fields as latch.go says
-- ARGV[1] member bytes a '=' and who counts down, once
-- Returns {left integer, -1 when it is not set}
local left = tonumber(redis.call('HGET', KEYS[1], 'left') or -1)
if left <= 0 or redis.call('HSETNX', KEYS[1], ARGV[1], '') == 0 then return {left} end
left = redis.call('HINCRBY', KEYS[1], 'left', -1)
if left > 0 then return {left} end

-- Open: wake the first living waiters. Each of them wakes the next: latch_wait.lua.
local ends = redis.call('HMGET', KEYS[1], 'head', 'tail')
local head, tail = tonumber(ends[1] or 0), tonumber(ends[2] or 0)
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
if tail > 0 then redis.call('HSET', KEYS[1], 'head', string.format('%.0f', head)) end
return {left}
