-- split.lua: let the parts of a cell take its place.
-- KEYS[1] state    hash {<name>:<cell>}:state, fields as doc.go says
-- KEYS[2] points   zset {<name>:<cell>}:points
-- KEYS[3] arriving hash {<name>:<cell>}:arriving
-- KEYS[4] leaving  hash {<name>:<cell>}:leaving
-- KEYS[5] left     zset {<name>:<cell>}:left
-- ARGV[1] split    text where the second part begins, in hexadecimal; empty: the cell can't be split and stays whole
-- Returns {status 1 done|0 it is not to be split}
if redis.call('HGET', KEYS[1], 'state') ~= 'frozen' then return {0} end
redis.call('HDEL', KEYS[1], 'who', 'until')
if ARGV[1] == '' then
  redis.call('HSET', KEYS[1], 'state', 'live', 'whole', '1')
  return {1}
end
redis.call('HSET', KEYS[1], 'state', 'split', 'split', ARGV[1])
redis.call('HDEL', KEYS[1], 'bytes')
redis.call('UNLINK', KEYS[2], KEYS[3], KEYS[4], KEYS[5])
return {1}
