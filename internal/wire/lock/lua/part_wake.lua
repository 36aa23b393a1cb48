-- part_wake.lua: wake the first in the queue, the part of several scripts.
-- KEYS[1] queue hash {<name>}:lock or :sem, with head and tail and two fields a waiter
-- Uses head, tail: of the queue, which is not empty
-- Returns {head as it is then}
-- A waiter whose process is gone has no subscriber: then the next one is tried. After
-- 64 of them the others find out by themselves, when the lease that they saw ends.
local stop, woken = math.min(tail, head + 64), 0
while woken == 0 and head < stop do
  head = head + 1
  local place = string.format('%.0f', head)
  local waiter = redis.call('HGET', KEYS[1], place)
  redis.call('HDEL', KEYS[1], place, waiter)
  local publish, channel = string.match(waiter, '^(%u+) (.*)$')
  -- Both commands are named, so that the engine sees that the script keeps to its keys.
  woken = publish == 'SPUBLISH' and redis.call('SPUBLISH', channel, KEYS[1]) or redis.call('PUBLISH', channel, KEYS[1])
end
if head == tail then
  redis.call('HDEL', KEYS[1], 'head', 'tail')
else
  redis.call('HSET', KEYS[1], 'head', string.format('%.0f', head))
end
