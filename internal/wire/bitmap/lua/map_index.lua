-- map_index.lua: tell the index that a map has shards.
-- KEYS[1] index  hash    {<name>}:map: for each shard 1, or 0 while it is deleted; until: when the map expires
-- ARGV[1..] shard integer of each, 1000 at most
-- Returns {until_ms integer since 1970; 0: never}
for i = 1, #ARGV do redis.call('HSET', KEYS[1], ARGV[i], '1') end
return {tonumber(redis.call('HGET', KEYS[1], 'until') or 0)}
