-- invalidate.lua: delete an entry and its lease, tell local levels, and wake the waiters.
-- KEYS[1] entry   string {<cache>:<key>}:cache, as doc.go says
-- ARGV[1] channel bytes  on which local levels listen
-- ARGV[2] message bytes  for them
-- Returns {there 0|1: there was a value}

-- part: head
local waiters = known and redis.call('GETRANGE', KEYS[1], 47 + size, -1) or ''
redis.call('DEL', KEYS[1])
redis.call('PUBLISH', ARGV[1], ARGV[2])
-- part: wake
return {kind ~= '-' and 1 or 0}
