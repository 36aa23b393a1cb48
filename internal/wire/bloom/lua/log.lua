-- log.lua: read what was added to a shard since the last time, and keep the log.
-- KEYS[1] shard  string  {<name>:<generation>:<n>}:bits
-- KEYS[2] log    string  {<name>:<generation>:<n>}:log: 16 bytes that name it, then the items, as in add.lua
-- ARGV[1] id     bytes   16 random bytes, for a new log
-- ARGV[2] length integer of the shard in bytes, without its seals
-- ARGV[3] known  bytes   the id of the log that the caller read before; empty: none
-- ARGV[4] from   integer how many bytes of it, id included, it has read
-- ARGV[5] ttl_ms integer how long the log is kept without a reader
-- Returns {there 0|1: the shard, id bytes of the log, added bytes: since then, or all of another log}
if redis.call('STRLEN', KEYS[1]) < tonumber(ARGV[2]) then return {0, '', ''} end
local id = redis.call('GETRANGE', KEYS[2], 0, 15)
if id == '' then
  redis.call('SET', KEYS[2], ARGV[1], 'PX', ARGV[5])
  return {1, ARGV[1], ''}
end
redis.call('PEXPIRE', KEYS[2], ARGV[5])
local from = 16
if id == ARGV[3] then from = tonumber(ARGV[4]) end
return {1, id, redis.call('GETRANGE', KEYS[2], from, -1)}
