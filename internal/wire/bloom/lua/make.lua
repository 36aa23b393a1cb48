-- make.lua: make a shard of zeros, unless it is there.
-- KEYS[1] shard    string {<name>:<generation>:<n>}:bits
-- ARGV[1] length   integer bytes
-- ARGV[2] until_us integer when it is too late: all shards were made by then, and a missing shard is lost
-- ARGV[3] ttl_ms   integer when the shard expires; 0: never
-- Returns {there 0|1}
local t = redis.call('TIME')
if redis.call('STRLEN', KEYS[1]) > 0 then return {1} end
if t[1] * 1000000 + t[2] > tonumber(ARGV[2]) then return {0} end
redis.call('SETRANGE', KEYS[1], tonumber(ARGV[1]) - 1, '\0')
if ARGV[3] ~= '0' then redis.call('PEXPIRE', KEYS[1], ARGV[3]) end
return {1}
