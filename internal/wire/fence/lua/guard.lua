-- guard.lua: run commands unless a larger token than theirs has been seen.
-- KEYS[1] fence    string  {<resource>}:fence, the largest token seen
-- KEYS[2..] keys   any     the keys of the commands, one after the other
-- ARGV[1] token    integer > 0
-- ARGV[2] keep_ms  integer how long the largest token is remembered; 0: for ever
-- ARGV[3..] words  bytes   for each command: three numbers, of words, keys and arguments, then its words and arguments
-- Returns {accepted 0|1, largest integer, then the reply or the error of each command}
local token = tonumber(ARGV[1])
local largest = tonumber(redis.call('GET', KEYS[1]) or 0)
if token < largest then return {0, largest} end
if ARGV[2] ~= '0' then
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
elseif token > largest then
  redis.call('SET', KEYS[1], ARGV[1])
end

local replies = {1, token}
local key, arg = 2, 3
while arg <= #ARGV do
  local words, keys, args = tonumber(ARGV[arg]), tonumber(ARGV[arg + 1]), tonumber(ARGV[arg + 2])
  local call = {unpack(ARGV, arg + 3, arg + 2 + words)}
  for i = key, key + keys - 1 do call[#call + 1] = KEYS[i] end
  for i = arg + 3 + words, arg + 2 + words + args do call[#call + 1] = ARGV[i] end
  key, arg = key + keys, arg + 3 + words + args
  replies[#replies + 1] = redis.pcall(unpack(call))
end
return replies
