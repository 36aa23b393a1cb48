-- time.lua: tell the time of the server of a key. A pool of several servers has no TIME.
-- Returns {now_us integer}
local t = redis.call('TIME')
return {t[1] * 1000000 + t[2]}
