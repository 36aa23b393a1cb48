-- chain_chunk.lua: read a part of the bits of a chain, or write one.
-- KEYS[1] chain  string  the client's key; as chain.go says
-- ARGV[1] at     integer where it begins in the bits of all links; < 0: nowhere
-- ARGV[2] most   integer bytes to read; 0: write
-- ARGV[3] data   bytes   the bytes to write
-- ARGV[4] tail   bytes   the part behind the bits of a chain that is made from a header; empty: make none
-- ARGV[5] length integer of the bits of that chain, in bytes
-- ARGV[6] version bytes  8 random bytes, which show that bits were written
-- Returns {status 2 made|1 done|0 there is none|-1 the key holds something else|-2 no link has it|-3 it goes beyond the link's end, data bytes}
local tail = redis.call('GETRANGE', KEYS[1], -52, -1)
if tail == '' and redis.call('EXISTS', KEYS[1]) == 0 then
  if ARGV[4] == '' then return {0, ''} end
  redis.call('SETRANGE', KEYS[1], ARGV[5], ARGV[4])
  return {2, ''}
end
if #tail < 52 or string.sub(tail, -8) ~= 'RdBloom2' then return {-1, ''} end
local n = struct.unpack('<I4', tail, 9)
tail = redis.call('GETRANGE', KEYS[1], -52 - 53 * n, -1)
local at, from = tonumber(ARGV[1]), 0
if at < 0 then return {-2, ''} end
for i = 1, n do
  local bytes = struct.unpack('<I8', tail, 53 * (i - 1) + 1)
  if at < from + bytes then
    local rest = from + bytes - at
    if ARGV[2] ~= '0' then
      return {1, redis.call('GETRANGE', KEYS[1], at, at + math.min(rest, tonumber(ARGV[2])) - 1)}
    end
    if #ARGV[3] > rest then return {-3, ''} end
    redis.call('SETRANGE', KEYS[1], at, ARGV[3])
    redis.call('SETRANGE', KEYS[1], redis.call('STRLEN', KEYS[1]) - 16, ARGV[6])
    return {1, ''}
  end
  from = from + bytes
end
return {-2, ''}
