-- calendar_mark.lua: mark days of a calendar, or unmark them.
-- KEYS[1] calendar string  {<name>}:calendar: 4 bytes, the first day that it has room for; then a bit for each day
-- ARGV[1] bit    integer 1 mark|0 unmark
-- ARGV[2] ttl_ms integer how long the calendar is kept from now on; 0: unchanged
-- ARGV[3] base   integer the first day of a new calendar; a multiple of 8
-- ARGV[4] today  integer 1: take the current day among the days that follow; after each day is when it begins, in s since 1970; the last day only ends the one before
-- ARGV[5..] days integer since 1900-01-01, the earliest first
-- Returns {changed integer, -1: today is none of the days, day integer: the first one taken, bytes: the calendar, or for -1 the server's time in s}
local days = {}
if ARGV[4] == '1' then
  local t = redis.call('TIME')
  local now = tonumber(t[1])
  for i = 5, #ARGV - 3, 2 do
    if now >= tonumber(ARGV[i + 1]) and now < tonumber(ARGV[i + 3]) then days[1] = tonumber(ARGV[i]) end
  end
  if not days[1] then return {-1, 0, t[1]} end
else
  for i = 5, #ARGV do days[i - 4] = tonumber(ARGV[i]) end
end

local bit, want = tonumber(ARGV[1]), tonumber(ARGV[3])
local head, base = redis.call('GETRANGE', KEYS[1], 0, 3), want
if head == '' then
  if bit == 0 then return {0, days[1], ''} end
  redis.call('SET', KEYS[1], struct.pack('>I4', base))
else
  base = #head == 4 and struct.unpack('>I4', head) or 1
  if base % 8 ~= 0 or base > 109572 then return redis.error_reply('ERR redoubt: the key holds no calendar') end
  if bit == 1 and days[1] < base then
    local rest = redis.call('GETRANGE', KEYS[1], 4, -1)
    redis.call('SETRANGE', KEYS[1], 0, struct.pack('>I4', want))
    redis.call('SETRANGE', KEYS[1], 4, string.rep('\0', (base - want) / 8))
    redis.call('SETRANGE', KEYS[1], 4 + (base - want) / 8, rest)
    base = want
  end
end

-- Clearing a bit beyond the end would make the string longer.
local ends, changed = base, 0
if bit == 0 then ends = base + (redis.call('STRLEN', KEYS[1]) - 4) * 8 end
for _, d in ipairs(days) do
  if bit == 1 or d >= base and d < ends then
    if redis.call('SETBIT', KEYS[1], 32 + d - base, bit) ~= bit then changed = changed + 1 end
  end
end
if ARGV[2] ~= '0' then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
return {changed, days[1], redis.call('GET', KEYS[1])}
