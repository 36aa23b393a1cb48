-- union.lua: read the union of sketches.
-- KEYS[1] work    string  {<page>}:work: exists while this script runs
-- KEYS[2..] visitors string {<page>}:visitors:<period>, at most 64
-- Returns {sketch bytes: a HyperLogLog}
redis.call('DEL', KEYS[1])
local merged = redis.pcall('PFMERGE', KEYS[1], unpack(KEYS, 2))
local sketch = redis.call('GET', KEYS[1])
redis.call('DEL', KEYS[1])
if merged.err then return merged end
return {sketch}
