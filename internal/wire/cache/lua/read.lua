-- read.lua: read an entry, and the clock.
-- KEYS[1] entry string {<cache>:<key>}:cache, as doc.go says
-- Returns {now_us integer, entry bytes or ''}
local t = redis.call('TIME')
return {t[1] * 1000000 + t[2], redis.call('GET', KEYS[1]) or ''}
