-- part_index.lua: the time, and the index of deadlines, for the scripts of this package.
-- KEYS[1] hash   hash    {<name>}:ttlhash, as doc.go says of all three
-- KEYS[2] index  zset    {<name>}:ttlindex
-- KEYS[3] events zset    {<name>}:ttlevents
-- ARGV[1] native integer 1: the server expires fields|0: it does not
-- Returns {} nothing: these are functions of others
local t = redis.call('TIME')
local now_us = t[1] * 1000000 + t[2]
local now, native = math.floor(now_us / 1000), ARGV[1] == '1'
local EVENT, GRACE = 2 ^ 47, 60000

-- Chunks of the index that this script has open, by when they are due; whether it filed
-- fields; until when the hash lives, where that is known.
local chunks, filed, lives_until = {}, false, nil

local function close(at)
  local c = chunks[at]
  c[1] = struct.pack('>BI6', c[1], at)
  redis.call('ZADD', KEYS[2], string.format('%.0f', at), table.concat(c))
  chunks[at] = nil
end

-- file notes a field to be looked at when its deadline is over, and returns what its
-- value says of that. An event is wanted at once; without one a 64th of the time is
-- early enough, and lets more fields share a chunk.
local function file(name, deadline, left, event)
  local _, exponent = math.frexp(left)
  local step = event and 128 or math.max(128, 2 ^ (exponent - 7))
  local at = math.ceil(deadline / step) * step
  local tag = 1 + (at / 128) % 65535
  if event then at = at + 1 end
  local c = chunks[at]
  if not c then
    c = {0}
    local text = string.format('%.0f', at)
    local open = redis.call('ZRANGEBYSCORE', KEYS[2], text, text, 'LIMIT', 0, 1)[1]
    if open and string.byte(open) < 16 then
      redis.call('ZREM', KEYS[2], open)
      c = {string.byte(open), string.sub(open, 8)}
    end
    chunks[at] = c
  end
  c[1] = c[1] + 1
  c[#c + 1] = struct.pack('>I2c0', #name, name)
  if c[1] == 16 then close(at) end
  filed = true
  return tag
end

-- header reads what stands in front of a value: deadline, whether its end is an
-- event, how it is filed.
local function header(value)
  if not value or #value < 8 then return 0, false, 0 end
  local deadline, tag = struct.unpack('>I6I2', value)
  if deadline >= EVENT then return deadline - EVENT, true, tag end
  return deadline, false, tag
end

local function packed(deadline, event, tag, payload)
  if event then deadline = deadline + EVENT end
  return table.concat({struct.pack('>I6I2', deadline, tag), payload})
end

local function expire_field(name, deadline, event)
  if event then deadline = deadline + GRACE end
  redis.call('HPEXPIREAT', KEYS[1], string.format('%.0f', deadline), 'FIELDS', 1, name)
end

-- tell keeps the event that a field is over.
local last_event
local function tell(name, deadline, value)
  if not last_event then
    last_event = tonumber(redis.call('ZREVRANGE', KEYS[3], 0, 0, 'WITHSCORES')[2] or 0)
  end
  last_event = math.max(now_us, last_event + 1)
  redis.call('ZADD', KEYS[3], string.format('%.0f', last_event),
    table.concat({struct.pack('>I7I6I2c0', last_event, deadline, #name, name), string.sub(value, 9)}))
end

local MOST = 1048576 -- bytes of values: more would take longer than 5 ms
local toil = 0 -- bytes of values that were read

-- too_large returns an error when several fields have more bytes than a script may read. It
-- comes before anything is written.
local function too_large(names)
  local bytes = 0
  for i = 1, #names do bytes = bytes + math.max(redis.call('HSTRLEN', KEYS[1], names[i]) - 8, 0) end
  if #names > 1 and bytes > MOST then
    return redis.error_reply('ERR redoubt: these fields have more than 1 MiB together: name fewer')
  end
end

-- visit checks the fields of a chunk: it deletes expired fields, and files the others
-- anew or leaves them to the server. It returns how many it deleted and how many it left.
local function visit(chunk)
  local n, at, from = struct.unpack('>BI6', chunk)
  local tag, names, fit = 1 + math.floor(at / 128) % 65535, {}, 0
  while fit < n and toil < MOST do
    local name, behind = struct.unpack('>I2c0', chunk, from)
    local bytes = redis.call('HSTRLEN', KEYS[1], name)
    if toil > 0 and toil + bytes > MOST then break end
    fit, toil, from = fit + 1, toil + bytes, behind
    names[fit] = name
  end
  if fit == 0 then return 0, 0 end
  if fit < n then -- the others are for the next script
    redis.call('ZADD', KEYS[2], string.format('%.0f', at), table.concat({struct.pack('>BI6', n - fit, at), string.sub(chunk, from)}))
  end
  local values, seen, dead, left = redis.call('HMGET', KEYS[1], unpack(names)), {}, {}, 0
  redis.call('ZREM', KEYS[2], chunk)
  for i = 1, fit do
    local name, value = names[i], values[i]
    local deadline, event, filed_as = header(value)
    if filed_as == tag and not seen[name] then
      seen[name] = true
      if deadline <= now then
        dead[#dead + 1] = name
        if event then tell(name, deadline, value) end
      else
        local new = 0
        if event or not native then new = file(name, deadline, deadline - now, event) end
        if new ~= tag then redis.call('HSET', KEYS[1], name, packed(deadline, event, new, string.sub(value, 9))) end
        if native then expire_field(name, deadline, event) end
        if new == 0 then left = left + 1 end
      end
    end
  end
  if #dead > 0 then redis.call('HDEL', KEYS[1], unpack(dead)) end
  return #dead, left
end

-- done writes what the functions above have gathered. The index lives as long as the hash,
-- or, if the server expires the fields, as long as it has chunks.
local function done()
  for at in pairs(chunks) do close(at) end
  if filed or lives_until then
    if not lives_until then
      local left = redis.call('PTTL', KEYS[1])
      if left >= 0 then
        lives_until = now + left
      elseif native then
        lives_until = (redis.call('ZREVRANGE', KEYS[2], 0, 0, 'WITHSCORES')[2] or 0) + GRACE
      end
    end
    if lives_until then redis.call('PEXPIREAT', KEYS[2], string.format('%.0f', lives_until)) end
  end
  if last_event then
    redis.call('ZREMRANGEBYRANK', KEYS[3], 0, -10001)
    redis.call('PEXPIRE', KEYS[3], 3600000)
  end
end

-- sweep visits chunks that are due, so many at most. It returns how many fields it
-- deleted.
local function sweep(most)
  local swept = 0
  local due = redis.call('ZRANGEBYSCORE', KEYS[2], 0, string.format('%.0f', now), 'LIMIT', 0, most)
  for i = 1, #due do
    if toil < MOST then swept = swept + visit(due[i]) end
  end
  if swept > 0 and redis.call('EXISTS', KEYS[1]) == 0 then
    redis.call('UNLINK', KEYS[2])
    chunks = {}
  end
  return swept
end

-- keep lets the hash live until the last deadline, and no longer. left is its PTTL before
-- the script wrote: -1 means that it is for ever, because a field is, or because the
-- server expires its fields.
local function keep(left, last, forever)
  if forever then
    if left >= 0 then
      redis.call('PERSIST', KEYS[1])
      redis.call('PERSIST', KEYS[2])
    end
  elseif (left >= 0 or left == -2 and not native) and now + left < last then
    redis.call('PEXPIREAT', KEYS[1], string.format('%.0f', last))
    lives_until = last
  end
end

-- tidy keeps the index in proportion to the hash: names of fields that were deleted or
-- filed anew stay in it until they are due.
local function tidy()
  if not filed then return end
  for at in pairs(chunks) do close(at) end
  if redis.call('ZCARD', KEYS[2]) > redis.call('HLEN', KEYS[1]) + 64 then
    for _ = 1, 2 do
      local chunk = redis.call('ZRANDMEMBER', KEYS[2])
      if chunk then visit(chunk) end
    end
  end
end
