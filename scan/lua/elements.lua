-- elements.lua: one page of the elements of a hash, a set or a sorted set, and which server process gave it.
-- KEYS[1] big     hash|set|zset any key of the caller's
-- ARGV[1] command bytes   HSCAN, SSCAN or ZSCAN
-- ARGV[2] length  bytes   HLEN, SCARD or ZCARD
-- ARGV[3] cursor  integer 0 in the beginning, then what the page before gave
-- ARGV[4] count   integer about how many elements
-- ARGV[5] match   bytes   a pattern; empty: all
-- Returns {cursor bytes, elements array, run_id bytes, length integer}

-- A cursor means something to the process that gave it only, and the key may be on
-- another one by now. Asked for in a command of its own, the answer could be that of
-- a server that the key has left.
local run = string.match(redis.call('INFO', 'server'), 'run_id:(%w+)') or ''
local page
if ARGV[5] == '' then
  page = redis.call(ARGV[1], KEYS[1], ARGV[3], 'COUNT', ARGV[4])
else
  page = redis.call(ARGV[1], KEYS[1], ARGV[3], 'COUNT', ARGV[4], 'MATCH', ARGV[5])
end
return {page[1], page[2], run, redis.call(ARGV[2], KEYS[1])}
