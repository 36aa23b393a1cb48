-- window.lua: admit calls by an exact log of those before them, under one or more limits.
-- The log is a ring: a header of head, where the next slot is, and how many
-- slots there are, four bytes each, then the slots of eight bytes: the time of a call
-- in us since 1970, 0 for none. All are big-endian. They are in order: a call
-- is no earlier than the one before it, also when the clock steps back.
-- KEYS[1] log   string  the ring
-- ARGV[1] most  integer calls to admit, at most; 0 to peek
-- ARGV[2] least integer admit none if it would be fewer than this
-- ARGV[3..] limits integers two a limit: how many calls, in how many us
-- Returns {taken integer, by integer, left integer, retry_us integer, reset_us integer}: by: the place, from 0, of the
-- limit that refuses longest, or that has the fewest calls left. retry: after which least calls, or one, are admitted; 0 when they are, or never
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
-- The header and 64 slots, which is all there is to most.
local start = redis.pcall('GETRANGE', KEYS[1], 0, 519)
if start.err then return start end
local head, cap = 0, 0
if #start > 0 then
  if #start >= 16 then head, cap = struct.unpack('>I4I4', start) end
  if head >= cap or (cap <= 64 and #start ~= 8 + 8 * cap) then
    return redis.error_reply('ERR redoubt: the key holds no log of calls')
  end
end

-- slots returns those from one index to another, counted from 0.
local function slots(from, to)
  if to < 64 then return string.sub(start, 9 + 8 * from, 16 + 8 * to) end
  return redis.call('GETRANGE', KEYS[1], string.format('%.0f', 8 + 8 * from), string.format('%.0f', 15 + 8 * to))
end

-- called returns the time of the k-th call from the last, which is the first.
local function called(k)
  if k > cap then return 0 end
  local i = (head - k) % cap
  return (struct.unpack('>I8', slots(i, i)))
end

-- Time does not go back behind the last call: the calls that had left a window
-- then are not in it again.
local last = called(1)
local at = math.max(now, last)

local least = tonumber(ARGV[2])
local wanted = math.max(least, 1)
local longest, highest, most, live = 0, 0, tonumber(ARGV[1]), 0
local by, left, refused_by, retry, never = 0, -1, -1, 0, false
for i = 3, #ARGV, 2 do
  local limit, window = tonumber(ARGV[i]), tonumber(ARGV[i + 1])
  longest, highest = math.max(longest, window), math.max(highest, limit)
  -- How many of the last calls are in the window: they are the first ones.
  local is, isnt = 0, math.floor(math.min(limit, cap)) + 1
  while isnt - is > 1 do
    local k = math.floor((is + isnt) / 2)
    if called(k) + window > at then is = k else isnt = k end
  end
  live = math.max(live, is)
  if left < 0 or limit - is < left then by, left = (i - 3) / 2, limit - is end
  if wanted > limit then
    refused_by, never = (i - 3) / 2, true
  elseif is + wanted > limit and not never then
    local wait = called(limit - wanted + 1) + window - now
    if wait > retry then refused_by, retry = (i - 3) / 2, wait end
  end
end
local taken = math.min(most, left)
if taken < least then taken = 0 end
if taken == 0 then
  if refused_by >= 0 then by = refused_by end
  return {0, by, left, never and 0 or retry, math.max(last + longest - now, 0)}
end

local px = math.ceil((at + longest - now) / 1000)
local new = string.rep(struct.pack('>I8', at), taken)
local size = live + taken
if size > cap or size <= 32 then
  -- A new ring, with room to grow by half if it is a large one.
  local pieces = {'', '', '', new, ''}
  if live > head then
    pieces[2] = slots(cap - (live - head), cap - 1)
    if head > 0 then pieces[3] = slots(0, head - 1) end
  elseif live > 0 then
    pieces[3] = slots(head - live, head - 1)
  end
  cap = size
  if size > 32 then cap = math.max(size, math.min(highest, math.floor(size * 1.5))) end
  pieces[1] = struct.pack('>I4I4', size % cap, cap)
  pieces[5] = string.rep('\0', 8 * (cap - size))
  redis.call('SET', KEYS[1], table.concat(pieces), 'PX', string.format('%.0f', px))
else
  local fit = math.min(taken, cap - head)
  redis.call('SETRANGE', KEYS[1], string.format('%.0f', 8 + 8 * head), string.sub(new, 1, 8 * fit))
  if fit < taken then redis.call('SETRANGE', KEYS[1], 8, string.sub(new, 8 * fit + 1)) end
  redis.call('SETRANGE', KEYS[1], 0, struct.pack('>I4', (head + taken) % cap))
  redis.call('PEXPIRE', KEYS[1], string.format('%.0f', px))
end
return {taken, by, left - taken, 0, at + longest - now}
