-- map_expire.lua: set when a map expires.
-- KEYS[1] index    hash    {<name>}:map: as map_index.lua says
-- ARGV[1] until_ms integer since 1970; 0: never
-- Returns {field text: each field of the index; none: there is no map}
local fields = redis.call('HKEYS', KEYS[1])
if #fields > 0 and ARGV[1] == '0' then
  redis.call('HDEL', KEYS[1], 'until')
  redis.call('PERSIST', KEYS[1])
elseif #fields > 0 then
  redis.call('HSET', KEYS[1], 'until', ARGV[1])
  redis.call('PEXPIREAT', KEYS[1], ARGV[1])
end
return fields
