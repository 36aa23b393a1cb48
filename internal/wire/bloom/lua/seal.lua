-- seal.lua: refuse adds to a shard by callers that do not know of a rebuild.
-- KEYS[1] shard  string  {<name>:<generation>:<n>}:bits
-- ARGV[1] length integer of the shard in bytes, without its seals
-- ARGV[2] seal   integer how many seals it is to have
-- Returns {there 0|1}
local length, want = redis.call('STRLEN', KEYS[1]), ARGV[1] + ARGV[2]
if length < tonumber(ARGV[1]) then return {0} end
if length < want then redis.call('SETRANGE', KEYS[1], want - 1, '\0') end
return {1}
