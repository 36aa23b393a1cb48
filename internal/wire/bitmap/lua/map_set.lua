-- map_set.lua: set bits of a shard, or clear them.
-- KEYS[1] shard    string  {<name>:<n>}:bits
-- ARGV[1] bit      integer 1 set|0 clear
-- ARGV[2] create   integer 1 make the shard if it does not exist|0 don't
-- ARGV[3] until_ms integer when a new shard expires, since 1970; 0: never
-- ARGV[4..] offset integer of each bit in the shard, 1000 at most
-- Returns {exists 0|1: the shard does, changed integer}
local made = redis.call('EXISTS', KEYS[1]) == 0
if made and ARGV[2] == '0' then return {0, 0} end
local ops, o = {}, 0
for i = 4, #ARGV do
  ops[o + 1], ops[o + 2], ops[o + 3], ops[o + 4] = 'SET', 'u1', ARGV[i], ARGV[1]
  o = o + 4
end
local bit, changed = tonumber(ARGV[1]), 0
for _, old in ipairs(redis.call('BITFIELD', KEYS[1], unpack(ops))) do
  if old ~= bit then changed = changed + 1 end
end
if made and ARGV[3] ~= '0' then redis.call('PEXPIREAT', KEYS[1], ARGV[3]) end
return {1, changed}
