-- map_combine.lua: combine shards of several maps.
-- KEYS[1] result   string  {<name>:<n>}:bits of the resulting map, or :work if the script only counts
-- KEYS[2..] shard  string  {<name>:<n>}:bits of each source
-- ARGV[1] op       text    AND|OR|XOR|ANDNOT: the first without the others
-- ARGV[2] keep     integer 1 keep the result|0 only count its bits
-- ARGV[3] until_ms integer when the result expires, since 1970; 0: never
-- Returns {count integer of the bits that are set}
if ARGV[1] == 'ANDNOT' then
  redis.call('BITOP', 'OR', KEYS[1], KEYS[2])
  for i = 3, #KEYS do
    -- (a OR b) XOR b is a without b.
    redis.call('BITOP', 'OR', KEYS[1], KEYS[1], KEYS[i])
    redis.call('BITOP', 'XOR', KEYS[1], KEYS[1], KEYS[i])
  end
else
  redis.call('BITOP', ARGV[1], KEYS[1], unpack(KEYS, 2))
end
local count = redis.call('BITCOUNT', KEYS[1])
if ARGV[2] == '0' then
  redis.call('DEL', KEYS[1])
elseif ARGV[3] ~= '0' then
  redis.call('PEXPIREAT', KEYS[1], ARGV[3])
end
return {count}
