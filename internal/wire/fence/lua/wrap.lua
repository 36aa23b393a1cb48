-- wrap.lua: run a script unless a larger token than its own has been seen.
-- KEYS[1] fence    string  {<resource>}:fence, the largest token seen
-- KEYS[2..] keys   any     the KEYS of the script
-- ARGV[1] token    integer > 0
-- ARGV[2] keep_ms  integer how long the largest token is remembered; 0: for ever
-- ARGV[3..] args   bytes   the ARGV of the script
-- Returns {accepted 0|1, largest integer, what the script returns}
local function script(KEYS, ARGV)
  -- the script
end
local token = tonumber(ARGV[1])
local largest = tonumber(redis.call('GET', KEYS[1]) or 0)
if token < largest then return {0, largest} end
if ARGV[2] ~= '0' then
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
elseif token > largest then
  redis.call('SET', KEYS[1], ARGV[1])
end

local keys, args = {}, {}
for i = 2, #KEYS do keys[i - 1] = KEYS[i] end
for i = 3, #ARGV do args[i - 2] = ARGV[i] end
return {1, token, (script(keys, args))}
