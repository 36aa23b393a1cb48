-- schedule.lua: change a schedule, and put the messages of its times, unless another process has changed it.
-- KEYS[1] queue   hash    {<name>}:queue, ids to envelopes
-- KEYS[2] ready   zset    ids by rank of their lane and since when they are ready
-- KEYS[3] groups  zset    a group, a place in its line, an id
-- KEYS[4] due     zset    ids by when they are due, in ms since 1970
-- KEYS[5] wake    zset    the marker that wakes one consumer
-- KEYS[6] schedules hash  ids of schedules to what was put
-- KEYS[7] states  hash    ids of schedules to where each stands
-- KEYS[8] ticks   zset    ids of schedules by their next time, in ms since 1970, inf without
-- ARGV[1] id      bytes   of the schedule
-- ARGV[2] was     bytes   its state before, empty for a new one
-- ARGV[3] state   bytes   its state from now on
-- ARGV[4] next    text    its next time: ms since 1970, or inf
-- ARGV[5] most    integer how many schedules the queue may have
-- ARGV[6] record  bytes   what was put; empty leaves it
-- ARGV[7..] messages bytes two each: id, envelope; at most 100, with 2 MiB together
-- Returns {1 done, or done before|0 its state was another|-1 the queue has too many}
local is = redis.call('HGET', KEYS[7], ARGV[1]) or ''
if is == ARGV[3] then return {1} end
if is ~= ARGV[2] then return {0} end
if is == '' and redis.call('HLEN', KEYS[7]) >= tonumber(ARGV[5]) then return {-1} end
redis.call('HSET', KEYS[7], ARGV[1], ARGV[3])
redis.call('ZADD', KEYS[8], ARGV[4], ARGV[1])
if ARGV[6] ~= '' then redis.call('HSET', KEYS[6], ARGV[1], ARGV[6]) end
if #ARGV < 8 then return {1} end

local t = redis.call('TIME')
-- part: place
local now, us = t[1] * 1000 + math.floor(t[2] / 1000), t[1] * 1000000 + t[2] - 1577836800000000
local promoted, behind, last = false, false, nil
for i = 7, #ARGV, 2 do
  local id, envelope = ARGV[i], ARGV[i + 1]
  if redis.call('HSETNX', KEYS[1], id, envelope) == 1 then
    if queue.grouped(envelope) and not promoted then -- what is due stands in front of it in its group
      local next_due = queue.promote(now)
      promoted, behind = true, next_due and next_due <= now
    end
    if behind and queue.grouped(envelope) then
      redis.call('ZADD', KEYS[4], string.format('%.0f', now), id)
    else
      if not last then -- behind all others of the lane, as put.lua does it: also when the clock stands
        local low = string.byte(envelope) % 4 * 2251799813685248
        local top = redis.call('ZREVRANGEBYSCORE', KEYS[2], string.format('%.0f', low + 2251799813685247),
          string.format('%.0f', low), 'WITHSCORES', 'LIMIT', 0, 1)[2]
        last = math.max(us - 1, top and top - low or 0)
      end
      last = last + 1
      queue.place(id, envelope, last)
    end
  end
end
queue.flush()
if redis.call('EXISTS', KEYS[2]) == 1 or behind then redis.call('ZADD', KEYS[5], 0, '1') end
return {1}
