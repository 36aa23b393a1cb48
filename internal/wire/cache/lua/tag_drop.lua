-- tag_drop.lua: remove invalidated keys from a tag, except keys that were added again.
-- KEYS[1] tag  zset  {<cache>:<tag>}:tag, as in tag.lua
-- ARGV[1..] pairs bytes a key and its score as the caller read it, and so on
-- Returns {dropped integer}
local dropped = 0
for i = 1, #ARGV, 2 do
  if redis.call('ZSCORE', KEYS[1], ARGV[i]) == ARGV[i + 1] then
    dropped = dropped + redis.call('ZREM', KEYS[1], ARGV[i])
  end
end
return {dropped}
