-- cancel.lua: remove messages from a queue, wherever they are in it.
-- KEYS[1] queue   hash    {<name>}:queue, ids to envelopes
-- KEYS[2] ready   zset    ids by rank of their lane and since when they are ready
-- KEYS[3] groups  zset    a group, a place in its line, an id
-- KEYS[4] due     zset    ids by when they are due, in ms since 1970
-- KEYS[5] dead    zset    ids by when they died
-- KEYS[6] fails   hash    ids to how often they failed, and the last reason
-- KEYS[7] wake    zset    the marker that wakes one consumer
-- KEYS[8] leases  zset    receipts by when their lease ends, in ms since 1970
-- ARGV[1] which   live|dead remove what is to be done, or what is dead
-- ARGV[2..] ids   bytes   at most 1000
-- Returns {what each was: 0 not there|1 pending|2 running|3 dead}: removed if which says so
local t = redis.call('TIME')
-- part: place
local us = t[1] * 1000000 + t[2] - 1577836800000000
local was, gone, receipts, waiting = {}, {}, nil, {}
for i = 2, #ARGV do
  local id, what = ARGV[i], 0
  local envelope = redis.call('HGET', KEYS[1], id)
  if envelope and redis.call('ZSCORE', KEYS[5], id) then
    what = 3
    if ARGV[1] == 'dead' then redis.call('ZREM', KEYS[5], id) end
  elseif envelope and ARGV[1] == 'live' then
    what = 1
    if redis.call('ZREM', KEYS[2], id) + redis.call('ZREM', KEYS[4], id) == 0 then
      -- Receipts begin with the take: only by going over them is that of an id found.
      if not receipts then
        receipts = {}
        for _, receipt in ipairs(redis.call('ZRANGE', KEYS[8], 0, -1)) do receipts[string.sub(receipt, 17)] = receipt end
      end
      if receipts[id] then
        what = 2
        redis.call('ZREM', KEYS[8], receipts[id])
      else -- it waits for the turn of its group: lines are gone over once for all
        local group = string.sub(envelope, 4, 4 + (string.byte(envelope, 4) or 0))
        waiting[group] = waiting[group] or {envelope, {}}
        waiting[group][2][id] = true
      end
    end
  end
  if what > 0 and (what == 3) == (ARGV[1] == 'dead') then
    redis.call('HDEL', KEYS[1], id)
    redis.call('HDEL', KEYS[6], id)
    gone[id] = envelope
  end
  was[i - 1] = what
end
for _, line in pairs(waiting) do queue.skip(line[1], line[2]) end
for id, envelope in pairs(gone) do queue.leave(id, envelope, us) end
queue.flush()
if redis.call('EXISTS', KEYS[2]) == 1 then
  redis.call('ZADD', KEYS[7], 0, '1')
elseif redis.call('EXISTS', KEYS[4], KEYS[8]) == 0 then
  redis.call('DEL', KEYS[7])
end
return was
