-- drain.lua: remove some pending messages, the ones that wait for others first.
-- KEYS[1] queue   hash    {<name>}:queue, ids to envelopes
-- KEYS[2] ready   zset    ids by rank of their lane and since when they are ready
-- KEYS[3] groups  zset    a group, a place in its line, an id
-- KEYS[4] due     zset    ids by when they are due, in ms since 1970
-- KEYS[5] dead    zset    ids by when they died
-- KEYS[6] fails   hash    ids to how often they failed, and the last reason
-- KEYS[7] wake    zset    the marker that wakes one consumer
-- KEYS[8] leases  zset    receipts by when their lease ends, in ms since 1970
-- KEYS[9..] after zset   blocked, links and ended: see the part after
-- ARGV[1] n       integer 1 to 1000: how many to look at
-- ARGV[2] skip    integer how many that are first in their groups were met before: 0 at first
-- Returns {removed integer, skip integer, more 0|1: call again with this skip}
local t = redis.call('TIME')
local n, skip = tonumber(ARGV[1]), tonumber(ARGV[2])
local BLOCKED, LINKS, ENDED = 9, 10, 11
-- part: place
-- part: after
local ids = {}

-- Messages that come after others are first.
local linked = redis.call('EXISTS', KEYS[LINKS], KEYS[ENDED]) > 0
if linked then
  local blocked, links = redis.call('ZRANGE', KEYS[BLOCKED], 0, n - 1, 'WITHSCORES'), 0
  for i = 1, #blocked, 2 do
    links = links + blocked[i + 1] % 1024
    if links > 1000 and i > 1 then break end
    ids[#ids + 1] = blocked[i]
  end
  local fit = queue.fit(ids, FREE)
  for i = #ids, fit + 1, -1 do ids[i] = nil end
  for _, id in ipairs(ids) do
    queue.unlink(id)
    redis.call('HDEL', KEYS[1], id)
    redis.call('HDEL', KEYS[6], id)
  end
  for _, id in ipairs(ids) do queue.ended(id, 3) end
  if #ids > 0 then
    queue.release(t)
    redis.call('ZADD', KEYS[7], 0, '1')
    return {#ids + queue.removed, skip, 1}
  end
end

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
local fit = queue.fit(ids, FREE)
local cut = fit < #ids
if cut then skip = tonumber(ARGV[2]) end -- the others are met again
for i = #ids, fit + 1, -1 do ids[i], waiting[i] = nil, nil end
if #waiting > 0 then redis.call('ZREM', KEYS[3], unpack(waiting)) end

if #members < all and not cut then
  local key = KEYS[2]
  local firsts = redis.call('ZRANGE', key, 0, n - #ids - 1)
  if #firsts == 0 then
    key = KEYS[4]
    firsts = redis.call('ZRANGE', key, 0, n - #ids - 1)
  end
  if #firsts > 0 then
    local groups = redis.call('EXISTS', KEYS[3]) == 1
    for i = #firsts, queue.fit(firsts, groups and READ or FREE) + 1, -1 do firsts[i] = nil end
    redis.call('ZREM', key, unpack(firsts))
    local envelopes = groups and redis.call('HMGET', KEYS[1], unpack(firsts)) or {}
    for i, id in ipairs(firsts) do
      if envelopes[i] then queue.leave(id, envelopes[i], 0) end
      ids[#ids + 1] = id
    end
    skip = 0 -- these are not in their groups any more
  end
  queue.flush()
end
if #ids > 0 then
  redis.call('HDEL', KEYS[1], unpack(ids))
  redis.call('HDEL', KEYS[6], unpack(ids))
end
if linked then
  for _, id in ipairs(ids) do queue.ended(id, 3) end
  queue.release(t)
  redis.call('ZADD', KEYS[7], 0, '1')
elseif redis.call('EXISTS', KEYS[2], KEYS[4], KEYS[8]) == 0 then
  redis.call('DEL', KEYS[7])
end
return {#ids + queue.removed, skip, (#ids > 0 or #members >= all) and 1 or 0}
