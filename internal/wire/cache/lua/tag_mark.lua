-- tag_mark.lua: note that a tag is being invalidated.
-- KEYS[1] tagged string {<cache>:<tag>}:tagged, when it was last invalidated, in µs
-- The caller also names the key {<cache>:<tag>}:tag, which this script doesn't use.
-- Returns {now_us integer}
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
redis.call('SET', KEYS[1], string.format('%.0f', now), 'EX', 3600)
return {now}
