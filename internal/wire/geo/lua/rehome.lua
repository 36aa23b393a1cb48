-- rehome.lua: note that members are in a part of their cell, which was split.
-- KEYS[1] members hash  {<name>:<n>}:members
-- ARGV[1] cell    bytes which was split, 16 bytes
-- ARGV[2] part    bytes of it, 16 bytes
-- ARGV[3..] member bytes each of them, and then the id of the step that brought it to the cell
-- Returns {n integer: of how many it was noted}
local n = 0
for i = 3, #ARGV, 2 do
  if redis.call('HGET', KEYS[1], ARGV[i]) == table.concat({ARGV[i + 1], ARGV[1]}) then
    redis.call('HSET', KEYS[1], ARGV[i], table.concat({ARGV[i + 1], ARGV[2]}))
    n = n + 1
  end
end
return {n}
