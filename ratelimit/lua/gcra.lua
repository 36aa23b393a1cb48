-- gcra.lua: take tokens from a limit by the generic cell rate algorithm.
-- Times are pairs of seconds and nanoseconds: one count of ns since 1970 is
-- beyond 2^53, where Lua's numbers stop being exact.
-- KEYS[1] tat    string  decimal ns since 1970: the theoretical arrival time, as redis-cell keeps it
-- ARGV[1] inc_s  integer increment: emission interval times tokens, 0 to peek, negative to give back
-- ARGV[2] inc_ns integer 0 to 999999999, added to inc_s, also when that is negative
-- ARGV[3] tol_s  integer tolerance: emission interval times burst
-- ARGV[4] tol_ns integer 0 to 999999999
-- Returns {allowed 0|1, reset_s integer, reset_ns integer}: how far tat is ahead of now, after the
-- call; negative when tokens were refused to a key that is past its time
local t = redis.call('TIME')
local now_s, now_ns = tonumber(t[1]), t[2] * 1000
local tat = redis.pcall('GET', KEYS[1])
local ahead_s, ahead_ns = 0, 0
if tat then
  if tat.err then return tat end
  local s, ns = string.match(tat, '^(%d+)(%d%d%d%d%d%d%d%d%d)$')
  if not s then s, ns = '0', string.match(tat, '^%d+$') end
  if not ns or #tat > 20 then
    return redis.error_reply('ERR redoubt: the key holds no rate limit: its value is not a decimal integer')
  end
  -- By tonumber, because the ns may begin with 0: in arithmetic on strings,
  -- some Luas take that for octal.
  ahead_s, ahead_ns = tonumber(s) - now_s, tonumber(ns) - now_ns
  if ahead_ns < 0 then ahead_s, ahead_ns = ahead_s - 1, ahead_ns + 1e9 end
end

-- How far tat would be ahead of now: max(now, tat) + inc - now.
local ttl_s, ttl_ns = tonumber(ARGV[1]), tonumber(ARGV[2])
if ahead_s >= 0 then
  ttl_s, ttl_ns = ttl_s + ahead_s, ttl_ns + ahead_ns
  if ttl_ns >= 1e9 then ttl_s, ttl_ns = ttl_s + 1, ttl_ns - 1e9 end
end
local over_s = ttl_s - ARGV[3]
if over_s > 0 or (over_s == 0 and ttl_ns > tonumber(ARGV[4])) then return {0, ahead_s, ahead_ns} end

-- What is given back beyond what was taken is not stored up.
if ttl_s < 0 then ttl_s, ttl_ns = 0, 0 end
if ARGV[1] ~= '0' or ARGV[2] ~= '0' then
  local s, ns = now_s + ttl_s, now_ns + ttl_ns
  if ns >= 1e9 then s, ns = s + 1, ns - 1e9 end
  -- Rounded up: a key that expires early forgets tokens that were taken.
  local px = math.max(1, ttl_s * 1000 + math.ceil(ttl_ns / 1e6))
  redis.call('SET', KEYS[1], string.format('%.0f%09.0f', s, ns), 'PX', string.format('%.0f', px))
end
return {1, ttl_s, ttl_ns}
