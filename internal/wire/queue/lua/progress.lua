-- progress.lua: note how far the work on a message has come.
-- KEYS[1] leases   zset    receipts by when their lease ends, in ms since 1970
-- KEYS[2] progress string  the 16 bytes of the take that noted it, and the note
-- ARGV[1] receipt  bytes
-- ARGV[2] keep_ms  integer > 0: the note is gone after so long
-- ARGV[3] note     bytes
-- Returns {held 0|1}: if not, nothing is noted
if not redis.call('ZSCORE', KEYS[1], ARGV[1]) then return {0} end
redis.call('SET', KEYS[2], table.concat({string.sub(ARGV[1], 1, 16), ARGV[3]}), 'PX', ARGV[2])
return {1}
