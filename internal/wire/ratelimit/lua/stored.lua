-- stored.lua: run one of the scripts of gcra.lua's kind with limits that are kept on the server.
-- KEYS[1] limits  string  {<name>}:limit, seven integers a limit, blanks between: rate, period_ns, burst, int_s, int_ns, tol_s, tol_ns
-- ARGV[1] n       integer 0 to 2^52: an increment is so many emission intervals
-- ARGV[2..] lead  bytes   what the script has before its limits
-- Returns {reply array of the script, limits string}, or an error NOTCONFIGURED when there are none
-- The keys of the script come behind that of the limits.
local run = nil -- the script, as a function of its arguments: scripts.go puts it here
local limits = redis.pcall('GET', KEYS[1])
if not limits then return redis.error_reply('NOTCONFIGURED redoubt: no limit is defined under this name') end
if limits.err then return limits end

local args = {}
for i = 2, #ARGV do args[i - 1] = ARGV[i] end
-- n in three parts, so that no product is above 2^53 that matters: whole
-- seconds beyond are more than any limit has.
local n = tonumber(ARGV[1])
local low = n % 1e6
local middle = (n - low) / 1e6 % 1e6
local high = (n - low - middle * 1e6) / 1e12
for int_s, int_ns, tol_s, tol_ns in string.gmatch(limits, '%d+ %d+ %d+ (%d+) (%d+) (%d+) (%d+)') do
  local ms = int_ns * middle
  local ns = int_ns * low + ms % 1000 * 1e6
  args[#args + 1] = string.format('%.0f', int_s * n + int_ns * high * 1000 + math.floor(ms / 1000) + math.floor(ns / 1e9))
  args[#args + 1] = string.format('%.0f', ns % 1e9)
  args[#args + 1] = tol_s
  args[#args + 1] = tol_ns
end
local reply = run(args)
if reply.err then return reply end
return {reply, limits}
