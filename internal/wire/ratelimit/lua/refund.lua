-- refund.lua: give tokens back, at most as many as are taken, once for each id.
-- Times are pairs of seconds and nanoseconds, as in gcra.lua.
-- KEYS[1] tats     string  as in gcra.lua
-- KEYS[2] refunds  zset    ids of what was given back, by until when they are known: in us since 1970
-- ARGV[1] id       bytes   names this refund: again with the same id it does nothing
-- ARGV[2] reserved string  the tats that a reservation led to, to cancel it: gives back nothing once its time has come, and what was reserved after it stays as it is. Empty: any tokens
-- ARGV[3] once     0|1      1: the id is of this call alone, and known for a minute only
-- ARGV[4..] limits integers four a limit: inc_s, inc_ns, tol_s, tol_ns. inc: emission interval times tokens. tol: emission interval times burst
-- Returns {given 0|1, now_us integer, ahead_s integer, ahead_ns integer, and two more a limit}: the time, and
-- how far each tat is ahead of it, after the call

-- part: tats

local now_us = now_s * 1e6 + t[2]
local ahead, after = {0, now_us}, {1, now_us}
local due, keep_s, reserved = ARGV[2] == '', 60, 1
for i = 4, #ARGV, 4 do
  -- part: tat
  if s < 0 then s, ns = 0, 0 end
  ahead[#ahead + 1] = s
  ahead[#ahead + 1] = ns

  local back_s, back_ns = tonumber(ARGV[i]), tonumber(ARGV[i + 1])
  local tol_s, tol_ns = tonumber(ARGV[i + 2]), tonumber(ARGV[i + 3])
  if ARGV[3] == '0' then keep_s = math.max(keep_s, tol_s + 61, s + 61) end
  if ARGV[2] ~= '' then
    local digits, rest = string.match(ARGV[2], '^(%d+) ?()', reserved)
    reserved = rest
    local to_s, to_ns = tonumber(string.sub(digits, 1, -10)) - now_s, tonumber(string.sub(digits, -9)) - now_ns
    if to_ns < 0 then to_s, to_ns = to_s - 1, to_ns + 1e9 end
    -- Its time is that by which the tolerance reaches its tat. Until then the
    -- same cancellation must be known.
    keep_s = math.max(keep_s, to_s + 61)
    due = due or to_s > tol_s or (to_s == tol_s and to_ns >= tol_ns)
    -- Later reservations keep their times: their part is not given back. A tat
    -- before its own was changed since.
    local later_s, later_ns = s - to_s, ns - to_ns
    if later_ns < 0 then later_s, later_ns = later_s - 1, later_ns + 1e9 end
    back_s, back_ns = back_s - later_s, back_ns - later_ns
    if back_ns < 0 then back_s, back_ns = back_s - 1, back_ns + 1e9 end
    if later_s < 0 or back_s < 0 then back_s, back_ns = 0, 0 end
  end
  s, ns = s - back_s, ns - back_ns
  if ns < 0 then s, ns = s - 1, ns + 1e9 end
  if s < 0 then s, ns = 0, 0 end
  after[#after + 1] = s
  after[#after + 1] = ns
end
if tonumber(redis.call('ZSCORE', KEYS[2], ARGV[1]) or 0) > now_us then
  ahead[1] = 1
  return ahead
end
if not due then return ahead end

-- An id is known until all tokens that are out now are back, and a minute more:
-- one that nobody else can name, while its own call may be sent again.
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', string.format('%.0f', now_us))
redis.call('ZADD', KEYS[2], string.format('%.0f', now_us + keep_s * 1e6), ARGV[1])
local last = redis.call('ZREVRANGE', KEYS[2], 0, 0, 'WITHSCORES')
redis.call('PEXPIRE', KEYS[2], string.format('%.0f', math.ceil((last[2] - now_us) / 1000)))
if not tats then return after end

local px, values = 1, {}
for i = 3, #after, 2 do
  local s, ns = after[i], after[i + 1]
  -- part: tat_put
end
redis.call('SET', KEYS[1], table.concat(values, ' '), 'PX', string.format('%.0f', px))
return after
