-- merge.lua: add the counts of a process for a page in a period, once.
-- KEYS[1] visitors string  {<page>}:visitors:<period>: a HyperLogLog
-- KEYS[2] views    hash    {<page>}:views:<period>: n, and for each process the number of its last batch
-- KEYS[3] work     string  {<page>}:work: exists while this script runs
-- ARGV[1] process  text
-- ARGV[2] batch    integer that rises; a batch that is not above the last was counted already
-- ARGV[3] views    integer
-- ARGV[4] until    integer when the period expires, in s since 1970
-- ARGV[5] form     text    elements: bytes for PFADD|sketch: a HyperLogLog
-- ARGV[6..] data   bytes   elements, 512 at most, or one sketch
-- Returns {new 1|0: it was counted already}
local last = redis.call('HGET', KEYS[2], ARGV[1])
if last and tonumber(last) >= tonumber(ARGV[2]) then return {0} end
if ARGV[5] == 'elements' then
  redis.call('PFADD', KEYS[1], unpack(ARGV, 6))
else
  redis.call('SET', KEYS[3], ARGV[6])
  local merged = redis.pcall('PFMERGE', KEYS[1], KEYS[3])
  redis.call('DEL', KEYS[3])
  if merged.err then return merged end
end
redis.call('HINCRBY', KEYS[2], 'n', ARGV[3])
redis.call('HSET', KEYS[2], ARGV[1], ARGV[2])
redis.call('EXPIREAT', KEYS[1], ARGV[4])
redis.call('EXPIREAT', KEYS[2], ARGV[4])
return {1}
