-- map_drop.lua: remove deleted shards from the index, unless they were made anew.
-- KEYS[1] index  hash    {<name>}:map: as map_index.lua says
-- ARGV[1..] shard integer of each, 1000 at most
-- Returns {removed integer}
local n = 0
for i = 1, #ARGV do
  if redis.call('HGET', KEYS[1], ARGV[i]) == '0' then n = n + redis.call('HDEL', KEYS[1], ARGV[i]) end
end
if redis.call('HLEN', KEYS[1]) == 1 then redis.call('HDEL', KEYS[1], 'until') end
return {n}
