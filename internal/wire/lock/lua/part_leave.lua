-- part_leave.lua: take a waiter out of the queue, the part of several scripts.
-- KEYS[1] queue hash {<name>}:lock or :sem, with head and tail and two fields a waiter
-- Uses waiter: leaves the queue if it is in it; head, tail: of the queue
-- Returns {place: where it was; tail as it is then}
local place = redis.call('HGET', KEYS[1], waiter)
if place then
  -- The last in the queue moves to its place. So the queue has no gaps for a
  -- release to search, and nobody falls back.
  local back = string.format('%.0f', tail)
  if place ~= back then
    local last = redis.call('HGET', KEYS[1], back)
    redis.call('HSET', KEYS[1], place, last, last, place)
  end
  redis.call('HDEL', KEYS[1], back, waiter)
  tail = redis.call('HINCRBY', KEYS[1], 'tail', -1)
  if tail == head then redis.call('HDEL', KEYS[1], 'head', 'tail') end
end
