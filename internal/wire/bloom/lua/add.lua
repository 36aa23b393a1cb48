-- add.lua: add items to a shard.
-- KEYS[1] shard    string {<name>:<generation>:<n>}:bits
-- KEYS[2] log      string {<name>:<generation>:<n>}:log, what was added, for mirrors; as doc.go says
-- ARGV[1] length   integer of the shard in bytes, without its seals
-- ARGV[2] seal     integer how many seals the caller knows of
-- ARGV[3] from_us  integer the server's time from which it may be added to; 0: any
-- ARGV[4] until_us integer and before which; 0: any
-- ARGV[5] hashes   integer bits of each item
-- ARGV[6..] item   bytes   the positions of an item's bits in the shard, 4 bytes each, little-endian
-- Returns {status 1 done|0 the shard is lost|-1 it is sealed|-2 it is not its time, now_us integer, new 0|1 of each item}
local now = 0
if ARGV[4] ~= '0' then
  local t = redis.call('TIME')
  now = t[1] * 1000000 + t[2]
  if now < tonumber(ARGV[3]) or now >= tonumber(ARGV[4]) then return {-2, now} end
end
local length = redis.call('STRLEN', KEYS[1])
if length < tonumber(ARGV[1]) then return {0, now} end
if length > ARGV[1] + ARGV[2] then return {-1, now} end

local hashes = tonumber(ARGV[5])
local positions, ops = table.concat({'<', string.rep('I4', hashes)}), {}
for j = 1, hashes do
  local o = 4 * j
  ops[o - 3], ops[o - 2], ops[o - 1], ops[o] = 'SET', 'u1', 0, '1'
end
local reply, added = {1, now}, {}
for i = 6, #ARGV do
  local at = {struct.unpack(positions, ARGV[i])}
  for j = 1, hashes do ops[4 * j - 1] = at[j] end
  local new = 0
  for _, old in ipairs(redis.call('BITFIELD', KEYS[1], unpack(ops))) do
    if old == 0 then
      new = 1
      added[#added + 1] = ARGV[i]
      break
    end
  end
  reply[i - 3] = new
end
if #added > 0 then
  local logged = redis.call('STRLEN', KEYS[2])
  if logged > 1048576 then
    redis.call('DEL', KEYS[2])
  elseif logged > 0 then
    redis.call('APPEND', KEYS[2], table.concat(added))
  end
end
return reply
