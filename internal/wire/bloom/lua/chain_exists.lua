-- chain_exists.lua: look for items in a chain.
-- KEYS[1] chain  string  the client's key; as chain.go says
-- ARGV[1] most   integer looks at bits that many items may take; one item may take any number
-- ARGV[2..] hash bytes   of each item, two numbers of 64 bits, little-endian
-- Returns {0|1 of each item: it may be in; or -4 alone: they would take more looks}
local reply = {}
for i = 2, #ARGV do reply[i - 1] = 0 end
local tail = redis.pcall('GETRANGE', KEYS[1], -1112, -1)
if type(tail) ~= 'string' or string.sub(tail, -8) ~= 'RdBloom2' or #tail < 52 then return reply end
local n = struct.unpack('<I4', tail, #tail - 43)
if n > 20 then tail = redis.call('GETRANGE', KEYS[1], -52 - 53 * n, -1) end
-- part: chain_links
if #reply > 1 and #reply * (2 * n + hashes(n)) > tonumber(ARGV[1]) then return {-4} end
for i = 2, #ARGV do
  item(ARGV[i])
  if found(n) then reply[i - 1] = 1 end
end
return reply
