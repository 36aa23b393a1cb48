-- gcra.lua: take tokens from all of a list of limits, or from none, by the generic cell rate algorithm.
-- Times are pairs of seconds and nanoseconds: one count of ns since 1970 is
-- beyond 2^53, where Lua's numbers stop being exact.
-- KEYS[1] tats    string  decimal ns since 1970, one a limit, a blank between two: the theoretical arrival times. One alone is what redis-cell keeps
-- ARGV[1] wait_s  integer seconds to wait for the tokens: 0 takes them now or not at all, more reserves them
-- ARGV[2] wait_ns integer 0 to 999999999
-- ARGV[3..] limits integers four a limit: inc_s, inc_ns, tol_s, tol_ns. inc: emission interval times tokens, 0 to peek, negative to give back (inc_ns is added, then too). tol: emission interval times burst
-- Returns {allowed 0|1, now_us integer, ahead_s integer, ahead_ns integer, and two more a limit}: the time, and
-- how far each tat is ahead of it, after the call; negative when tokens were refused to a tat that is past

-- part: tats

local now_us = now_s * 1e6 + t[2]
local ahead, after = {0, now_us}, {1, now_us}
local late_s, late_ns, never = 0, 0, false -- how much later than now the tokens are there
for i = 3, #ARGV, 4 do
  -- part: tat
  ahead[#ahead + 1] = s
  ahead[#ahead + 1] = ns

  -- How far the tat would be ahead of now: max(now, tat) + inc - now.
  local inc_s, inc_ns, tol_s, tol_ns = tonumber(ARGV[i]), tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2]), tonumber(ARGV[i + 3])
  if s < 0 then s, ns = 0, 0 end
  s, ns = s + inc_s, ns + inc_ns
  if ns >= 1e9 then s, ns = s + 1, ns - 1e9 end
  local over_s, over_ns = s - tol_s, ns - tol_ns
  if over_ns < 0 then over_s, over_ns = over_s - 1, over_ns + 1e9 end
  if over_s > late_s or (over_s == late_s and over_ns > late_ns) then late_s, late_ns = over_s, over_ns end
  never = never or inc_s > tol_s or (inc_s == tol_s and inc_ns > tol_ns)
  -- Tokens that are given back beyond the taken ones are dropped.
  if s < 0 then s, ns = 0, 0 end
  after[#after + 1] = s
  after[#after + 1] = ns
end
if never or late_s > tonumber(ARGV[1]) or (late_s == tonumber(ARGV[1]) and late_ns > tonumber(ARGV[2])) then return ahead end
if ARGV[3] == '0' and ARGV[4] == '0' then return after end

local px, values = 1, {}
for i = 3, #after, 2 do
  local s, ns = after[i], after[i + 1]
  if #after > 4 and (late_s > 0 or late_ns > 0) then
    -- Tokens that one limit delays are delayed for the others: these take them at
    -- that time, and not now.
    local inc = 2 * i - 3
    local then_s, then_ns = late_s + ARGV[inc], late_ns + ARGV[inc + 1]
    if then_ns >= 1e9 then then_s, then_ns = then_s + 1, then_ns - 1e9 end
    if then_s > s or (then_s == s and then_ns > ns) then s, ns = then_s, then_ns end
    after[i], after[i + 1] = s, ns
  end
  -- part: tat_put
end
redis.call('SET', KEYS[1], table.concat(values, ' '), 'PX', string.format('%.0f', px))
return after
