-- part_after.lua: functions for messages that come after others, the part of several scripts.
-- It stands behind the part place and the locals BLOCKED, LINKS and ENDED, which are positions in KEYS.
-- KEYS[1..] keys   any     the keys of the script, in the same order: the hash {<name>}:queue, ids to envelopes; the zsets ready, groups, due
-- and dead; the hash fails; and at the positions BLOCKED, LINKS and ENDED three more:
-- BLOCKED is a zset: ids of messages, each with 1024 times when it is to be due, as in put.lua, plus how many it still waits for.
-- LINKS is a zset, all of score 0, with two members for each message (parent) that a blocked one (child) waits for:
-- the length of the parent, the parent, 0|1, the child; and 0, the length of the child, the child, 0|1, the parent. 1: also when it failed
-- ENDED is a zset: parents whose links are still to be taken away: 0 it is done, 1 it is dead, 2 it was removed,
-- 3 it was removed with all that comes after it
-- Returns {queue: with these functions too}

-- The messages that a message comes after, and whether also after a failure. See envelope.go.
function queue.parents(envelope)
  local parents, flags, at = {}, string.byte(envelope) or 0, 4
  if flags < 16 or flags > 31 then return parents, false end
  if flags % 8 > 3 then at = 5 + (string.byte(envelope, 4) or 0) end
  local any = string.byte(envelope, at) == 1
  local n = (string.byte(envelope, at + 1) or 0) * 256 + (string.byte(envelope, at + 2) or 0)
  at = at + 3
  while #parents < n and at < #envelope do
    local length = string.byte(envelope, at)
    parents[#parents + 1] = string.sub(envelope, at + 1, at + length)
    at = at + 1 + length
  end
  return parents, any
end

-- The members of LINKS that begin with head and have 0 or 1 behind it.
local function links_of(head, most)
  return redis.call('ZRANGEBYLEX', KEYS[LINKS], table.concat({'[', head, '\0'}), table.concat({'(', head, '\2'}), 'LIMIT', 0, most)
end
local function head_of(parent) return table.concat({string.char(#parent), parent}) end
local function back_of(child) return table.concat({'\0', string.char(#child), child}) end

-- Whether links of a message that this one comes after are still to be taken away: new ones can't be told from them.
function queue.busy(envelope)
  for _, parent in ipairs(queue.parents(envelope)) do
    if redis.call('ZSCORE', KEYS[ENDED], parent) then return true end
  end
  return false
end

-- Blocks a message until those are done that it comes after and that are in the queue.
-- again: it was dead, and waits for dead ones too.
-- Returns for how many it waits; or nil and one of them that is dead.
function queue.block(id, envelope, when, again)
  local parents, any = queue.parents(envelope)
  local links, n = {}, 0
  for _, parent in ipairs(parents) do
    if redis.call('HEXISTS', KEYS[1], parent) == 1 then
      local dead = redis.call('ZSCORE', KEYS[5], parent)
      if dead and not any and not again then return nil, parent end
      if not dead or not any then
        local kind = any and '\1' or '\0'
        links[#links + 1] = 0
        links[#links + 1] = table.concat({head_of(parent), kind, id})
        links[#links + 1] = 0
        links[#links + 1] = table.concat({back_of(id), kind, parent})
        n = n + 1
      end
    end
  end
  if n > 0 then
    redis.call('ZADD', KEYS[LINKS], unpack(links))
    redis.call('ZADD', KEYS[BLOCKED], string.format('%.0f', when * 1024 + n), id)
  end
  return n
end

-- Takes a blocked message's links away. Returns how many it had.
function queue.unlink(id)
  local back, links = back_of(id), {}
  for _, link in ipairs(links_of(back, -1)) do
    local parent, kind = string.sub(link, #back + 2), string.sub(link, #back + 1, #back + 1)
    links[#links + 1] = link
    links[#links + 1] = table.concat({head_of(parent), kind, id})
  end
  redis.call('ZREM', KEYS[BLOCKED], id)
  if #links > 0 then redis.call('ZREM', KEYS[LINKS], unpack(links)) end
  return #links / 2
end

-- Notes that a message has ended, and how, as in ENDED.
function queue.ended(id, how)
  if #id > 0 and #id < 256 and links_of(head_of(id), 1)[1] then redis.call('ZADD', KEYS[ENDED], 'NX', how, id) end
end

-- A message dies of one that it comes after.
function queue.fall(id, parent, how, now)
  redis.call('HSET', KEYS[6], id, table.concat({'0 it comes after ', parent, how == 1 and ', which is dead' or ', which was removed'}))
  redis.call('ZADD', KEYS[5], string.format('%.0f', now), id)
end

-- Takes away at most some 1000 links of what has ended. A message that waits for nothing more becomes due.
-- Sets queue.sooner when one is due later, and queue.removed. Returns whether more is to be taken away.
queue.removed = 0
function queue.release(t)
  local now, left = t[1] * 1000 + math.floor(t[2] / 1000), 1000
  while left > 0 do
    local first = redis.call('ZRANGE', KEYS[ENDED], 0, 0, 'WITHSCORES')
    local parent, how = first[1], tonumber(first[2])
    if not parent then return false end
    local head, gone, most = head_of(parent), {}, left
    local links = links_of(head, most)
    for i, link in ipairs(links) do
      if left <= 0 then break end
      left = left - 1
      local id, kind = string.sub(link, #head + 2), string.sub(link, #head + 1, #head + 1)
      gone[2 * i - 1] = link
      gone[2 * i] = table.concat({back_of(id), kind, parent})
      if how > 0 and kind == '\0' then
        left = left - queue.unlink(id)
        if how == 3 then
          left = left - redis.call('HSTRLEN', KEYS[1], id) / 16384 -- freeing 16 MiB takes some 6 ms
          redis.call('HDEL', KEYS[1], id)
          queue.removed = queue.removed + 1
        else
          queue.fall(id, parent, how, now)
        end
        queue.ended(id, how == 3 and 3 or 1)
      else
        local score = tonumber(redis.call('ZADD', KEYS[BLOCKED], 'XX', 'INCR', -1, id) or 1)
        if score % 1024 == 0 then
          local when = score / 1024
          if when < 0 then when = t[1] * 1000 + math.ceil(t[2] / 1000) - when end -- up: not before the time is over
          if when > now then queue.sooner = true end
          redis.call('ZREM', KEYS[BLOCKED], id)
          redis.call('ZADD', KEYS[4], string.format('%.0f', math.max(when, now)), id)
        end
      end
    end
    if #gone > 0 then redis.call('ZREM', KEYS[LINKS], unpack(gone)) end
    if #gone == 2 * #links and #links < most then redis.call('ZREM', KEYS[ENDED], parent) end
  end
  return redis.call('EXISTS', KEYS[ENDED]) == 1
end
