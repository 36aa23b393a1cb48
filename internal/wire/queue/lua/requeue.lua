-- requeue.lua: give dead messages all their attempts again.
-- KEYS[1] queue   hash    {<name>}:queue, ids to envelopes
-- KEYS[2] ready   zset    ids by rank of their lane and since when they are ready
-- KEYS[3] groups  zset    a group, a place in its line, an id
-- KEYS[4] due     zset    ids by when they are due, in ms since 1970
-- KEYS[5] dead    zset    ids by when they died
-- KEYS[6] fails   hash    ids to how often they failed, and the last reason
-- KEYS[7] wake    zset    the marker that wakes one consumer
-- KEYS[8..] after zset   blocked, links and ended: see the part after
-- ARGV[1] whole   0|1     1: all of them in this step, or an error
-- ARGV[2..] ids   bytes   at most 1000
-- Returns {requeued 0|1 of each of the first: the others are for another step, because of their bytes or of what they come after}
-- or an error: to be repeated, because many messages wait for one that is done, and are not all released yet
local t = redis.call('TIME')
local BLOCKED, LINKS, ENDED = 8, 9, 10
-- part: place
-- part: after
local now, us = t[1] * 1000 + math.floor(t[2] / 1000), t[1] * 1000000 + t[2] - 1577836800000000
local requeued, promoted, behind, ids = {}, false, false, {}
for i = 2, #ARGV do ids[i - 1] = ARGV[i] end
local fit = queue.fit(ids, READ)
local envelopes, links, ending = redis.call('HMGET', KEYS[1], unpack(ids, 1, fit)), 0, redis.call('EXISTS', KEYS[ENDED]) == 1
if ending then queue.release(t) end
for i = 1, fit do
  if (string.byte(envelopes[i] or '') or 0) > 15 then
    links = links + #queue.parents(envelopes[i])
    if links > 1000 and i > 1 then
      fit = i - 1
      break
    end
    if ending and queue.busy(envelopes[i]) then
      redis.call('ZADD', KEYS[7], 0, '1')
      return redis.error_reply('TRYAGAIN redoubt: many messages wait for one that is done, and are not all released yet: requeue it again')
    end
  end
end
if fit < #ids and ARGV[1] == '1' then
  return redis.error_reply('ERR redoubt: these messages hold up the server when they are one step, as inside MULTI and in another database than its own: name fewer')
end
for i = 1, fit do
  local id = ids[i]
  requeued[i] = redis.call('ZREM', KEYS[5], id)
  local envelope = requeued[i] == 1 and envelopes[i]
  if envelope then redis.call('HDEL', KEYS[6], id) end
  if envelope and queue.block(id, envelope, 0, true) == 0 then
    if queue.grouped(envelope) and not promoted then -- what is due stands in front of it in its group
      local next_due = queue.promote(now)
      promoted, behind = true, next_due and next_due <= now
    end
    if behind and queue.grouped(envelope) then
      redis.call('ZADD', KEYS[4], string.format('%.0f', now), id)
    else
      queue.place(id, envelope, us + i - 1) -- in the order in which they are named
    end
  end
end
queue.flush()
if ending or redis.call('EXISTS', KEYS[2]) == 1 then redis.call('ZADD', KEYS[7], 0, '1') end
return requeued
