-- batch.lua: what gcra.lua does for one call, for a list of calls, one after the other at one time.
-- KEYS[1] tats  string  as in gcra.lua
-- ARGV[1] calls integer how many
-- ARGV[2..] list integers the tokens of each call, 1 to 100000, to take all or none of; then four a limit: int_s, int_ns, tol_s, tol_ns. int: emission interval. tol: emission interval times burst
-- Returns {now_us integer, then for each call: allowed 0|1, ahead_s integer, ahead_ns integer, and two more a limit}:
-- how far each tat is ahead of now, after that call; negative when tokens were refused to a tat that is past

-- part: tats

local calls = tonumber(ARGV[1])
local int_s, int_ns, tol_s, tol_ns = {}, {}, {}, {}
local ahead_s, ahead_ns, next_s, next_ns = {}, {}, {}, {}
for i = 2 + calls, #ARGV, 4 do
  -- part: tat
  local k = #ahead_s + 1
  ahead_s[k], ahead_ns[k] = s, ns
  int_s[k], int_ns[k] = tonumber(ARGV[i]), tonumber(ARGV[i + 1])
  tol_s[k], tol_ns[k] = tonumber(ARGV[i + 2]), tonumber(ARGV[i + 3])
end

local limits, taken, reply, r = #ahead_s, false, {now_s * 1e6 + t[2]}, 2
for call = 2, 1 + calls do
  local n, allowed = tonumber(ARGV[call]), 1
  for k = 1, limits do
    -- Exact: n is at most 1e5.
    local ns = int_ns[k] * n
    local s = int_s[k] * n + math.floor(ns / 1e9)
    ns = ns % 1e9
    if ahead_s[k] >= 0 then
      s, ns = s + ahead_s[k], ns + ahead_ns[k]
      if ns >= 1e9 then s, ns = s + 1, ns - 1e9 end
    end
    if s > tol_s[k] or (s == tol_s[k] and ns > tol_ns[k]) then allowed = 0 end
    next_s[k], next_ns[k] = s, ns
  end
  if allowed == 1 then
    taken, ahead_s, ahead_ns, next_s, next_ns = true, next_s, next_ns, ahead_s, ahead_ns
  end
  reply[r], r = allowed, r + 1
  for k = 1, limits do
    reply[r], reply[r + 1], r = ahead_s[k], ahead_ns[k], r + 2
  end
end
if not taken then return reply end

local px, values = 1, {}
for k = 1, limits do
  local s, ns = ahead_s[k], ahead_ns[k]
  -- part: tat_put
end
redis.call('SET', KEYS[1], table.concat(values, ' '), 'PX', string.format('%.0f', px))
return reply
