-- quota.lua: take from one or more allowances that begin anew with each period of a calendar.
-- KEYS[1] quota string  two integers a limit, blanks between: when its period began, in s since 1970, and what was taken in it
-- ARGV[1] most  integer to take, at most; 0 to peek
-- ARGV[2] least integer take none if it would be fewer than this
-- ARGV[3..] limits integers five a limit: how many a period, and when four periods that follow each other begin, in s since 1970
-- Returns {taken integer, by integer, left integer, retry_us integer, reset_us integer}: as window.lua. When the
-- time is in none of the first three periods, {-1, 0, now_s, 0, 0}, and nothing was taken
local t = redis.call('TIME')
local now = tonumber(t[1])
local quota = redis.pcall('GET', KEYS[1])
if quota and quota.err then return quota end
if quota and not string.find(quota, '^%d+ %d[%d ]*$') then
  return redis.error_reply('ERR redoubt: the key holds no quota')
end

local least = tonumber(ARGV[2])
local wanted = math.max(least, 1)
local most, values, from = tonumber(ARGV[1]), {}, 1
local by, left, refused_by, retry, never, ends = 0, -1, -1, 0, false, 0
for i = 3, #ARGV, 5 do
  local limit = tonumber(ARGV[i])
  local period = nil
  for k = 1, 3 do
    if now >= tonumber(ARGV[i + k]) and now < tonumber(ARGV[i + k + 1]) then period = k end
  end
  if not period then return {-1, 0, now, 0, 0} end
  local start, used = tonumber(ARGV[i + period]), 0
  local begun, taken, rest = string.match(quota or '', '^(%d+) (%d+) ?()', from)
  if begun then
    from = rest
    -- A period that has begun goes on, also when the clock steps back behind
    -- its beginning.
    if tonumber(begun) >= start then start, used = tonumber(begun), tonumber(taken) end
  end
  local stop = tonumber(ARGV[i + period + 1])
  if stop <= start then stop = tonumber(ARGV[i + math.min(period + 2, 4)]) end
  ends = math.max(ends, stop)
  local free = math.max(limit - used, 0)
  if left < 0 or free < left then by, left = (i - 3) / 5, free end
  if wanted > limit then
    refused_by, never = (i - 3) / 5, true
  elseif free < wanted and not never and stop - now > retry then
    refused_by, retry = (i - 3) / 5, stop - now
  end
  values[#values + 1] = start
  values[#values + 1] = used
end
local taken = math.min(most, left)
if taken < least then taken = 0 end
local reset = (ends - now) * 1000000 - t[2]
if taken == 0 then
  if refused_by >= 0 then by = refused_by end
  if never or retry == 0 then return {0, by, left, 0, reset} end
  return {0, by, left, retry * 1000000 - t[2], reset}
end
for i = 1, #values do
  values[i] = string.format('%.0f', i % 2 == 0 and values[i] + taken or values[i])
end
local px = math.ceil(reset / 1000)
redis.call('SET', KEYS[1], table.concat(values, ' '), 'PX', string.format('%.0f', px))
return {taken, by, left - taken, 0, reset}
