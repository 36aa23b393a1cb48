-- latch_set.lua: set a latch that is not set.
-- KEYS[1] latch  hash    {<name>}:latch, fields as latch.go says
-- ARGV[1] id     bytes   names this call, made by the client
-- ARGV[2] count  integer > 0
-- ARGV[3] ttl_ms integer > 0, for the whole
-- Returns {set 0|1, left integer}
local held = redis.call('HMGET', KEYS[1], 'by', 'left')
if held[1] == ARGV[1] then return {1, tonumber(held[2])} end -- the same call again, after a lost reply
if held[1] then return {0, tonumber(held[2])} end
redis.call('HSET', KEYS[1], 'by', ARGV[1], 'left', ARGV[2])
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return {1, tonumber(ARGV[2])}
