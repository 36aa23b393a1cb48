-- cancel.lua: remove messages from a queue, wherever they are in it.
-- KEYS[1] queue   hash    {<name>}:queue, ids to envelopes
-- KEYS[2] ready   zset    ids by rank of their lane and since when they are ready
-- KEYS[3] groups  zset    a group, a place in its line, an id
-- KEYS[4] due     zset    ids by when they are due, in ms since 1970
-- KEYS[5] dead    zset    ids by when they died
-- KEYS[6] fails   hash    ids to how often they failed, and the last reason
-- KEYS[7] wake    zset    the marker that wakes one consumer
-- KEYS[8] leases  zset    receipts by when their lease ends, in ms since 1970
-- KEYS[9..] after zset   blocked, links and ended: see the part after
-- ARGV[1] which   live|dead remove what is to be done, or what is dead
-- ARGV[2] whole   0|1     1: all ids in this step, or an error
-- ARGV[3..] ids   bytes   two each, at most 1000 ids: the id; where it was seen: its receipt, its member of KEYS[3], - nowhere, '' nobody has looked
-- Returns {what each of the first ids was: 0 not there|1 pending|2 running|3 dead|-1 it is to be looked for}: removed if which says so;
-- the other ids are for another step
local t = redis.call('TIME')
local BLOCKED, LINKS, ENDED = 9, 10, 11
-- part: place
-- part: after
local us = t[1] * 1000000 + t[2] - 1577836800000000
local live, MOST, ids, was, gone, from = ARGV[1] == 'live', 4000, {}, {}, {}, {}
local groups = live and redis.call('EXISTS', KEYS[3]) == 1
local leases, linked, links = redis.call('ZCARD', KEYS[8]), redis.call('EXISTS', KEYS[LINKS], KEYS[ENDED]) > 0, 0
for i = 3, #ARGV, 2 do ids[#ids + 1] = ARGV[i] end
local fit = queue.fit(ids, groups and READ or FREE)

-- Receipts begin with the take, and members with the group, so the script can find the receipt or
-- member of an id only by searching all of them. It does so only while there are few.
local receipts, lines, read = nil, {}, 0

-- Finds an id that is neither ready, due nor dead: it is running, waiting or absent. Returns that and
-- what to remove, false if the script can't tell, and nil if the id is for another step.
local function find(id, envelope, seen)
  local before = read
  if queue.grouped(envelope) then
    local group, low, high = queue.line(envelope)
    local line = lines[group]
    if not line then
      line = {first = redis.call('ZRANGEBYLEX', KEYS[3], low, high, 'LIMIT', 0, 1)[1], members = {}}
      local n = redis.call('ZLEXCOUNT', KEYS[3], low, high)
      if n <= MOST then
        if before > 0 and read + n > MOST then return nil end
        read = read + n
        for _, member in ipairs(redis.call('ZRANGEBYLEX', KEYS[3], low, high)) do line.members[string.sub(member, #group + 7)] = member end
      else
        line.long = true
      end
      lines[group] = line
    end
    local member = line.members[id]
    if line.long and string.sub(seen, 1, #group) == group and string.sub(seen, #group + 7) == id and redis.call('ZSCORE', KEYS[3], seen) then
      member = seen
    end
    if member and member ~= line.first then return 'waiting', member end
    if line.long and seen ~= '-' and (not line.first or string.sub(line.first, #group + 7) ~= id) then return false end
  end
  if leases <= MOST then
    if not receipts then
      if before > 0 and read + leases > MOST then return nil end
      read, receipts = read + leases, {}
      for _, receipt in ipairs(redis.call('ZRANGE', KEYS[8], 0, -1)) do receipts[string.sub(receipt, 17)] = receipt end
    end
    if receipts[id] then return 'running', receipts[id] end
    return 'nowhere'
  end
  if string.sub(seen, 17) == id and redis.call('ZSCORE', KEYS[8], seen) then return 'running', seen end
  if seen == '-' then return 'nowhere' end
  return false
end

local ready = redis.call('ZMSCORE', KEYS[2], unpack(ids, 1, fit))
local due = redis.call('ZMSCORE', KEYS[4], unpack(ids, 1, fit))
local dead = redis.call('ZMSCORE', KEYS[5], unpack(ids, 1, fit))
for i = 1, fit do
  local id, what = ids[i], 0
  local envelope = false
  if groups then
    envelope = redis.call('HGET', KEYS[1], id)
  elseif redis.call('HEXISTS', KEYS[1], id) == 1 then
    envelope = ''
  end
  if not envelope or gone[id] then
    what = 0
  elseif dead[i] then
    what = 3
    if not live then gone[id], from[id] = envelope, {'dead', id} end
  elseif live then
    what = 1
    local state, member = 'pending', id
    if not ready[i] and not due[i] then
      local score = linked and redis.call('ZSCORE', KEYS[BLOCKED], id)
      if score then
        state, links = 'blocked', links + score % 1024
        if links > 1000 and i > 1 then state = nil end
      else
        state, member = find(id, envelope, ARGV[2 * i + 2])
      end
    end
    if state == nil then
      fit = i - 1
      break
    end
    if state == 'running' then what = 2 end
    if not state then what = -1 end
    if state then gone[id], from[id] = envelope, {state, member} end
  end
  was[i] = what
end
if ARGV[2] == '1' then
  for i = 1, fit do
    if was[i] < 0 then
      return redis.error_reply('ERR redoubt: more than 4000 messages are running, or wait in one group: a message is not looked for among them in one step, as inside MULTI and in another database than its own')
    end
  end
  if fit < #ids then
    return redis.error_reply('ERR redoubt: these messages hold up the server when they are one step, as inside MULTI and in another database than its own: name fewer')
  end
end

local removed = {pending = {}, running = {}, waiting = {}, dead = {}, all = {}}
for id, at in pairs(from) do
  local state, member = at[1], at[2]
  if state == 'blocked' then
    queue.unlink(id)
  elseif removed[state] then -- what is nowhere else is only in the hashes
    table.insert(removed[state], member)
  end
  removed.all[#removed.all + 1] = id
end
if #removed.pending > 0 then
  redis.call('ZREM', KEYS[2], unpack(removed.pending))
  redis.call('ZREM', KEYS[4], unpack(removed.pending))
end
if #removed.running > 0 then redis.call('ZREM', KEYS[8], unpack(removed.running)) end
if #removed.waiting > 0 then redis.call('ZREM', KEYS[3], unpack(removed.waiting)) end
if #removed.dead > 0 then redis.call('ZREM', KEYS[5], unpack(removed.dead)) end
if #removed.all > 0 then
  redis.call('HDEL', KEYS[1], unpack(removed.all))
  redis.call('HDEL', KEYS[6], unpack(removed.all))
end
if groups then
  for id, envelope in pairs(gone) do queue.leave(id, envelope, us) end
end
if linked then
  for id in pairs(gone) do queue.ended(id, 2) end
  queue.release(t)
end
queue.flush()
if queue.later or linked or redis.call('EXISTS', KEYS[2]) == 1 then
  redis.call('ZADD', KEYS[7], 0, '1')
elseif redis.call('EXISTS', KEYS[4], KEYS[8]) == 0 then
  redis.call('DEL', KEYS[7])
end
return was
