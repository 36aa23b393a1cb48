-- drain.lua: remove some of what is to be done and not at work, those that wait for others first.
-- KEYS[1] queue   hash    {<name>}:queue, ids to envelopes
-- KEYS[2] ready   zset    ids by rank of their lane and since when they are ready
-- KEYS[3] groups  zset    a group, a place in its line, an id
-- KEYS[4] due     zset    ids by when they are due, in ms since 1970
-- KEYS[5] wake    zset    the marker that wakes one consumer
-- KEYS[6] fails   hash    ids to how often they failed, and the last reason
-- KEYS[7] leases  zset    receipts by when their lease ends, in ms since 1970
-- ARGV[1] n       integer 1 to 1000: how many to look at
-- ARGV[2] skip    integer how many that are first in their groups were met before: 0 at first
-- Returns {removed integer, skip integer, more 0|1: call again with this skip}
local n, skip = tonumber(ARGV[1]), tonumber(ARGV[2])
-- part: place
local ids = {}

-- All but the first of each group wait for it.
local from = math.max(skip - 1, 0)
local all = n + skip - from -- one of them was met before
local members, waiting, last = redis.call('ZRANGE', KEYS[3], from, skip + n - 1), {}, nil
for i, member in ipairs(members) do
  local group = string.sub(member, 1, 1 + (string.byte(member) or 0))
  if group == last then
    waiting[#waiting + 1] = member
    ids[#ids + 1] = string.sub(member, #group + 7)
  elseif from + i > skip then
    skip = skip + 1
  end
  last = group
end
if #waiting > 0 then redis.call('ZREM', KEYS[3], unpack(waiting)) end

if #members < all then
  local popped = redis.call('ZPOPMIN', KEYS[2], n - #ids)
  if #popped == 0 then popped = redis.call('ZPOPMIN', KEYS[4], n - #ids) end
  local firsts = {}
  for i = 1, #popped, 2 do firsts[#firsts + 1] = popped[i] end
  if #firsts > 0 then
    for i, envelope in ipairs(redis.call('HMGET', KEYS[1], unpack(firsts))) do
      if envelope then queue.leave(firsts[i], envelope, 0) end
      ids[#ids + 1] = firsts[i]
    end
    skip = 0 -- these are not in their groups any more
  end
  queue.flush()
end
if #ids > 0 then
  redis.call('HDEL', KEYS[1], unpack(ids))
  redis.call('HDEL', KEYS[6], unpack(ids))
end
if redis.call('EXISTS', KEYS[2], KEYS[4], KEYS[7]) == 0 then redis.call('DEL', KEYS[5]) end
return {#ids, skip, (#ids > 0 or #members >= all) and 1 or 0}
