-- part_place.lua: functions that put a message into its line, the part of several scripts.
-- KEYS[1] queue   hash    {<name>}:queue, ids to envelopes
-- KEYS[2] ready   zset    ids by rank of their lane and since when they are ready
-- KEYS[3] groups  zset    all of score 0: a group, a place in its line, an id. The first of a group has the turn
-- KEYS[4] due     zset    ids by when they are due, in ms since 1970
-- Returns {queue: the functions}
local queue, found = {}, {}

-- A message becomes ready when its group, if it has one, has nobody in front of it.
-- us is since when it is ready, in us since 2020: 0 is the front of its lane.
function queue.ready(id, envelope, us)
  found[#found + 1] = string.format('%.0f', (string.byte(envelope) or 0) % 4 * 2251799813685248 + us)
  found[#found + 1] = id
end

-- Before anybody reads what is ready, and at the end.
function queue.flush()
  for i = 1, #found, 4000 do
    redis.call('ZADD', KEYS[2], unpack(found, i, math.min(i + 3999, #found)))
  end
  found = {}
end

-- An entry of another program is no envelope, and has no group.
function queue.grouped(envelope)
  return (string.byte(envelope) or 0) % 8 > 3 and #envelope >= 4 + (string.byte(envelope, 4) or 0) and #envelope > 4
end

-- The line of a message's group, as a range of KEYS[3], and what its members begin with.
function queue.line(envelope)
  local group = string.sub(envelope, 4, 4 + string.byte(envelope, 4))
  return group, table.concat({'[', group}), table.concat({'(', group, '\255'})
end

-- Makes a message ready, or puts it at the end of its group's line.
function queue.place(id, envelope, us)
  if queue.grouped(envelope) then
    local group, from, to = queue.line(envelope)
    local first = redis.call('ZRANGEBYLEX', KEYS[3], from, to, 'LIMIT', 0, 1)[1]
    if not first or string.sub(first, #group + 7) ~= id then
      local last = redis.call('ZREVRANGEBYLEX', KEYS[3], to, from, 'LIMIT', 0, 1)[1]
      local place = last and #last > #group + 6 and struct.unpack('>I6', last, #group + 1) + 1 or 1
      redis.call('ZADD', KEYS[3], 0, table.concat({group, struct.pack('>I6', place), id}))
      if last then return end
    end
  end
  queue.ready(id, envelope, us)
end

-- How many of the first messages have so many bytes together: at least one. A script needs 6 ms
-- to read 2 MiB, or to free 16 MiB.
local READ, FREE = 2097152, 16777216
function queue.fit(ids, most)
  local bytes = 0
  for i, id in ipairs(ids) do
    bytes = bytes + redis.call('HSTRLEN', KEYS[1], id)
    if i > 1 and bytes > most then return i - 1 end
  end
  return #ids
end

-- Makes messages ready that are due by now, in ms: at most 256 of KEYS[4].
-- Returns when the next message is due, nil if none is.
function queue.promote(now)
  local due = tonumber(redis.call('ZRANGE', KEYS[4], 0, 0, 'WITHSCORES')[2])
  if not due or due > now then return due end
  local found = redis.call('ZRANGEBYSCORE', KEYS[4], '-inf', string.format('%.0f', now), 'WITHSCORES', 'LIMIT', 0, 256)
  local ids = {}
  for i = 1, #found, 2 do ids[#ids + 1] = found[i] end
  local fit = queue.fit(ids, READ)
  redis.call('ZREM', KEYS[4], unpack(ids, 1, fit))
  for i, envelope in ipairs(redis.call('HMGET', KEYS[1], unpack(ids, 1, fit))) do
    if envelope then queue.place(ids[i], envelope, found[2 * i] * 1000 - 1577836800000000) end
  end
  return tonumber(redis.call('ZRANGE', KEYS[4], 0, 0, 'WITHSCORES')[2])
end

-- When the first message of a group is gone, the next has the turn. Reading a large message takes
-- time, so such a message becomes due now, and a later step makes it ready.
function queue.leave(id, envelope, us)
  if not queue.grouped(envelope) then return end
  local group, from, to = queue.line(envelope)
  local two = redis.call('ZRANGEBYLEX', KEYS[3], from, to, 'LIMIT', 0, 2)
  if not two[1] or string.sub(two[1], #group + 7) ~= id then return end
  redis.call('ZREM', KEYS[3], two[1])
  if not two[2] then return end
  local next_id = string.sub(two[2], #group + 7)
  if redis.call('HSTRLEN', KEYS[1], next_id) > 65536 then
    queue.later = true
    redis.call('ZADD', KEYS[4], string.format('%.0f', math.floor((us + 1577836800000000) / 1000)), next_id)
    return
  end
  queue.ready(next_id, redis.call('HGET', KEYS[1], next_id) or envelope, us)
end
