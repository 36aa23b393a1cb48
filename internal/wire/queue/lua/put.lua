-- put.lua: put messages into a queue, each unless its id is in it already.
-- KEYS[1] queue   hash    {<name>}:queue, ids to envelopes
-- KEYS[2] ready   zset    ids by rank of their lane and since when they are ready
-- KEYS[3] groups  zset    a group, a place in its line, an id
-- KEYS[4] due     zset    ids by when they are due, in ms since 1970
-- KEYS[5] dead    zset    ids by when they died
-- KEYS[6] fails   hash    ids to how often they failed, and the last reason
-- KEYS[7] wake    zset    the marker that wakes one consumer
-- KEYS[8..] uniques string the id that has a key, one for each message with unique_ms > 0, in order;
-- and if a message comes after others, the keys blocked, links and ended of the part after
-- ARGV[1..] messages four a message: id; when: 0 now, > 0 ms since 1970, < 0 so many ms from now; unique_ms: 0 none; envelope
-- Returns {now_ms integer, status of each: 1 put|2 put and blocked|3 put and dead, because of one that it comes after|0 its id is in the queue, or has its unique key|id bytes of the one that has its unique key}
-- or an error: to be repeated, because many messages wait for one that is done, and are not all released yet
local t = redis.call('TIME')
local now, us = t[1] * 1000 + math.floor(t[2] / 1000), t[1] * 1000000 + t[2] - 1577836800000000

-- Where the last of a lane stands: who comes is behind all, also when the clock stands or went back.
local function last_of(lane)
  local low = lane * 2251799813685248
  local top = redis.call('ZREVRANGEBYSCORE', KEYS[2], string.format('%.0f', low + 2251799813685247),
    string.format('%.0f', low), 'WITHSCORES', 'LIMIT', 0, 1)[2]
  return math.max(us - 1, top and top - low or 0)
end

-- One for now, with neither a key nor a group and after no other, needs none of the rest.
local lane = #ARGV == 4 and ARGV[2] == '0' and ARGV[3] == '0' and (string.byte(ARGV[4]) or 0)
if lane and lane < 16 then lane = lane % 8 end
if lane and lane < 4 and redis.call('HSETNX', KEYS[1], ARGV[1], ARGV[4]) == 1 then
  redis.call('ZADD', KEYS[2], string.format('%.0f', lane * 2251799813685248 + last_of(lane) + 1), ARGV[1])
  redis.call('ZADD', KEYS[7], 0, '1')
  return {now, 1}
end

local BLOCKED, LINKS, ENDED = #KEYS - 2, #KEYS - 1, #KEYS
-- part: place
-- part: after
local statuses, later, last, ready, unique, promoted, behind = {now}, {}, {}, false, 7, false, false
for i = 4, #ARGV, 4 do
  if (string.byte(ARGV[i]) or 0) > 15 then
    if redis.call('EXISTS', KEYS[ENDED]) == 0 then break end
    if not ready then
      ready = true
      queue.release(t)
    end
    if queue.busy(ARGV[i]) then
      redis.call('ZADD', KEYS[7], 0, '1')
      return redis.error_reply('TRYAGAIN redoubt: many messages wait for one that is done, and are not all released yet: put it again')
    end
  end
end
for i = 1, #ARGV, 4 do
  local id, when, envelope, status, claimed = ARGV[i], tonumber(ARGV[i + 1]), ARGV[i + 3], 1, false
  if tonumber(ARGV[i + 2]) > 0 then
    unique = unique + 1
    if redis.call('SET', KEYS[unique], id, 'NX', 'PX', ARGV[i + 2]) then
      claimed = true
    else
      status = redis.call('GET', KEYS[unique])
      if status == id then status = 0 end -- put before, and maybe done by now
    end
  end
  if status == 1 and redis.call('HSETNX', KEYS[1], id, envelope) == 0 then
    if redis.call('ZREM', KEYS[5], id) == 1 then -- dead: this one takes its place
      redis.call('HSET', KEYS[1], id, envelope)
      redis.call('HDEL', KEYS[6], id)
    else
      status = 0
      if claimed then redis.call('DEL', KEYS[unique]) end -- it was put without the key
    end
  end
  if status == 1 and string.byte(envelope) > 15 then
    local blocked, parent = queue.block(id, envelope, when, false)
    if not blocked then
      queue.fall(id, parent, 1, now)
      status = 3
    elseif blocked > 0 then
      status = 2
    end
  end
  if status == 1 then
    if when < 0 then when = math.ceil(t[2] / 1000) + t[1] * 1000 - when end -- up: not before the time is over
    local after_due = when <= now and queue.grouped(envelope)
    if after_due and not promoted then -- what is due stands in front of it in its group
      local next_due = queue.promote(now)
      queue.flush()
      promoted, ready, behind = true, true, next_due and next_due <= now
    end
    if after_due and behind then when = now end
    if when > now or after_due and behind then
      later[#later + 1] = string.format('%.0f', when)
      later[#later + 1] = id
    else
      local rank = string.byte(envelope) % 4
      last[rank] = last[rank] or last_of(rank)
      last[rank], ready = last[rank] + 1, true
      queue.place(id, envelope, last[rank])
    end
  end
  statuses[#statuses + 1] = status
end
queue.flush()

-- A consumer that sleeps until the first due message must hear of an earlier one.
local wake = ready
if #later > 0 then
  local first = redis.call('ZRANGE', KEYS[4], 0, 0)[1]
  for i = 1, #later, 4000 do
    redis.call('ZADD', KEYS[4], unpack(later, i, math.min(i + 3999, #later)))
  end
  wake = wake or redis.call('ZRANGE', KEYS[4], 0, 0)[1] ~= first
end
if wake then redis.call('ZADD', KEYS[7], 0, '1') end
return statuses
