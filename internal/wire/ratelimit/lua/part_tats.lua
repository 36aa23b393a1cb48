-- part_tats.lua: read the time and the theoretical arrival times of a limit, the part of several scripts.
-- KEYS[1] tats string as in gcra.lua
-- Returns {t, now_s and now_ns: the server's time; tats and from: for part_tat.lua}
local t = redis.call('TIME')
local now_s, now_ns = tonumber(t[1]), t[2] * 1000
local tats, from = redis.pcall('GET', KEYS[1]), 1
if tats and tats.err then return tats end
