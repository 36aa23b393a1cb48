-- chain_reserve.lua: make a chain.
-- KEYS[1] chain  string  the client's key; as chain.go says
-- ARGV[1] tail   bytes   the part behind the bits
-- ARGV[2] length integer of the bits, in bytes
-- Returns {status 1 made|0 there is one|-1 the key holds something else}
if redis.call('GETRANGE', KEYS[1], -8, -1) == 'RdBloom2' then return {0} end
if redis.call('EXISTS', KEYS[1]) == 1 then return {-1} end
redis.call('SETRANGE', KEYS[1], ARGV[2], ARGV[1])
return {1}
