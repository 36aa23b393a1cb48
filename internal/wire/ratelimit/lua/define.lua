-- define.lua: store limits for stored.lua, or tell which are stored.
-- KEYS[1] limits string {<name>}:limit
-- ARGV[1] limits string as in stored.lua; empty: only tell
-- ARGV[2] first  0|1    1: only if there are none
-- Returns {stored 0|1, limits string}: whether this call stored its limits; the limits that are stored now, empty for none
local now = redis.call('GET', KEYS[1])
if ARGV[1] == '' or (now and ARGV[2] == '1') then return {0, now or ''} end
redis.call('SET', KEYS[1], ARGV[1])
return {1, ARGV[1]}
