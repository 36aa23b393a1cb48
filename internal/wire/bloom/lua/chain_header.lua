-- chain_header.lua: read the end of a chain.
-- KEYS[1] chain string the client's key; as chain.go says
-- Returns {status 1 done|0 there is none|-1 the key holds something else, tail bytes: the part behind the bits}
local tail = redis.pcall('GETRANGE', KEYS[1], -52, -1)
if type(tail) ~= 'string' then return {-1, ''} end
if tail == '' and redis.call('EXISTS', KEYS[1]) == 0 then return {0, ''} end
if #tail < 52 or string.sub(tail, -8) ~= 'RdBloom2' then return {-1, ''} end
local n = struct.unpack('<I4', tail, 9)
return {1, redis.call('GETRANGE', KEYS[1], -52 - 53 * n, -1)}
