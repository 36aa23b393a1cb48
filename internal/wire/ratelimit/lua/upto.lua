-- upto.lua: take up to a number of tokens, at most what is left, by the generic cell rate algorithm.
-- Times are pairs of seconds and nanoseconds, as in gcra.lua.
-- KEYS[1] tats  string  as in gcra.lua
-- ARGV[1] most  integer 1 to 2^52
-- ARGV[2..] limits integers four a limit: int_s, int_ns, tol_s, tol_ns. int: emission interval. tol: emission interval times burst
-- Returns {taken integer, now_us integer, ahead_s integer, ahead_ns integer, and two more a limit}: the time, and
-- how far each tat is ahead of it, after the call

-- part: tats

-- times returns n intervals. No product is above 2^53: an interval times the
-- burst, which n does not pass, is less than 2^63 ns.
local function times(s, ns, n)
  local few = n % 1e6
  local many = ns * ((n - few) / 1e6) -- in ms
  local rest = ns * few + many % 1000 * 1e6
  return s * n + math.floor(many / 1000) + math.floor(rest / 1e9), rest % 1e9
end

local reply = {tonumber(ARGV[1]), now_s * 1e6 + t[2]}
for i = 2, #ARGV, 4 do
  -- part: tat
  if s < 0 then s, ns = 0, 0 end
  reply[#reply + 1] = s
  reply[#reply + 1] = ns
  -- The part of the tolerance that is left, and about how many intervals it holds.
  s, ns = ARGV[i + 2] - s, ARGV[i + 3] - ns
  if ns < 0 then s, ns = s - 1, ns + 1e9 end
  local int_s, int_ns = tonumber(ARGV[i]), tonumber(ARGV[i + 1])
  local n = s < 0 and 0 or math.min(reply[1], math.floor((s + ns / 1e9) / (int_s + int_ns / 1e9)) + 2)
  -- It may be off by a rounding, either way.
  local all_s, all_ns = times(int_s, int_ns, n)
  while n > 0 and (all_s > s or (all_s == s and all_ns > ns)) do
    n = n - 1
    all_s, all_ns = times(int_s, int_ns, n)
  end
  reply[1] = n
end
if reply[1] == 0 then return reply end

local px, values = 1, {}
for i = 3, #reply, 2 do
  local at = 2 * i - 4
  local s, ns = times(tonumber(ARGV[at]), tonumber(ARGV[at + 1]), reply[1])
  s, ns = s + reply[i], ns + reply[i + 1]
  if ns >= 1e9 then s, ns = s + 1, ns - 1e9 end
  reply[i], reply[i + 1] = s, ns
  -- part: tat_put
end
redis.call('SET', KEYS[1], table.concat(values, ' '), 'PX', string.format('%.0f', px))
return reply
