-- return.lua: give back tokens that were leased and not used, less what has come back of them by itself.
-- While they were out, the limit got back up to that much in their place: to
-- give that as well would give it twice.
-- KEYS[1] tats       string  as in gcra.lua
-- ARGV[1] granted_us integer the server's time at which they were taken
-- ARGV[2..] limits   integers four a limit: inc_s, inc_ns, tol_s, tol_ns. inc: emission interval times tokens
-- Returns {given 0|1, now_us integer, ahead_s integer, ahead_ns integer, and two more a limit}: the time, and
-- how far each tat is ahead of it, after the call

-- part: tats

local now_us = now_s * 1e6 + t[2]
local out_us = math.max(now_us - ARGV[1], 0)
local out_s, out_ns = math.floor(out_us / 1e6), out_us % 1e6 * 1000
local reply = {0, now_us}
for i = 2, #ARGV, 4 do
  -- part: tat
  if s < 0 then s, ns = 0, 0 end
  local back_s, back_ns = ARGV[i] - out_s, ARGV[i + 1] - out_ns
  if back_ns < 0 then back_s, back_ns = back_s - 1, back_ns + 1e9 end
  if back_s >= 0 and (s > 0 or ns > 0) and (back_s > 0 or back_ns > 0) then
    s, ns, reply[1] = s - back_s, ns - back_ns, 1
    if ns < 0 then s, ns = s - 1, ns + 1e9 end
    if s < 0 then s, ns = 0, 0 end
  end
  reply[#reply + 1] = s
  reply[#reply + 1] = ns
end
if reply[1] == 0 then return reply end

local px, values = 1, {}
for i = 3, #reply, 2 do
  local s, ns = reply[i], reply[i + 1]
  -- part: tat_put
end
redis.call('SET', KEYS[1], table.concat(values, ' '), 'PX', string.format('%.0f', px))
return reply
