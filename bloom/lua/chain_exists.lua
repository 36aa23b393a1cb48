-- chain_exists.lua: look for items in a chain.
-- KEYS[1] chain  string  the client's key; as chain.go says
-- ARGV[1..] hash bytes   of each item, two numbers of 64 bits, little-endian
-- Returns {0|1 of each item: it may be in}
local reply = {}
for i = 1, #ARGV do reply[i] = 0 end
local tail = redis.pcall('GETRANGE', KEYS[1], -1104, -1)
if type(tail) ~= 'string' or string.sub(tail, -8) ~= 'RdBloom1' or #tail < 44 then return reply end
local n = struct.unpack('<I4', tail, #tail - 35)
if n > 20 then tail = redis.call('GETRANGE', KEYS[1], -44 - 53 * n, -1) end

local links, data, at = {}, 0, #tail - 43 - 53 * n
for i = 1, n do
  local bytes, bits = struct.unpack('<I8I8', tail, at)
  local n2 = string.byte(tail, at + 52)
  if n2 > 0 then bits = 2 ^ n2 end
  links[i] = {from = data * 8, modulus = bits, hashes = struct.unpack('<I4', tail, at + 40)}
  data, at = data + bytes, at + 53
end

for i = 1, #ARGV do
  for j = n, 1, -1 do
    local a_low, a_high, b_low, b_high = struct.unpack('<I4I4I4I4', ARGV[i])
    local l, ops = links[j], {}
    local m = l.modulus
    for o = 1, 3 * l.hashes, 3 do
      -- As in chain_insert.lua.
      local bit = ((a_high % m) * 65536 + math.floor(a_low / 65536)) % m
      bit = (bit * 65536 + a_low % 65536) % m
      ops[o], ops[o + 1], ops[o + 2] = 'GET', 'u1', l.from + bit + 7 - 2 * (bit % 8)
      a_low, a_high = a_low + b_low, a_high + b_high
      if a_low >= 4294967296 then a_low, a_high = a_low - 4294967296, a_high + 1 end
      a_high = a_high % 4294967296
    end
    reply[i] = 1
    for _, bit in ipairs(redis.call('BITFIELD_RO', KEYS[1], unpack(ops))) do
      if bit == 0 then
        reply[i] = 0
        break
      end
    end
    if reply[i] == 1 then break end
  end
end
return reply
