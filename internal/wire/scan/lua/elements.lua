-- elements.lua: one page of the elements of a hash, a set or a sorted set, and which server process gave it.
-- KEYS[1] big     hash|set|zset any key of the caller's
-- ARGV[1] command bytes   HSCAN, SSCAN or ZSCAN
-- ARGV[2] cursor  integer 0 in the beginning, then what the page before gave
-- ARGV[3] count   integer about how many elements
-- ARGV[4] match   bytes   a pattern; *: all
-- Returns {cursor bytes, elements array, run_id bytes, length integer}

-- A cursor is valid only for the process that gave it, and another process may have the key by now. A
-- second command could be answered by a server that the key has left.
local run = string.match(redis.call('INFO', 'server'), 'run_id:(%w+)') or ''
-- Each command is named, so that the engine sees that the script uses no other key.
local page, length
if ARGV[1] == 'HSCAN' then
  page = redis.call('HSCAN', KEYS[1], ARGV[2], 'COUNT', ARGV[3], 'MATCH', ARGV[4])
  length = redis.call('HLEN', KEYS[1])
elseif ARGV[1] == 'SSCAN' then
  page = redis.call('SSCAN', KEYS[1], ARGV[2], 'COUNT', ARGV[3], 'MATCH', ARGV[4])
  length = redis.call('SCARD', KEYS[1])
else
  page = redis.call('ZSCAN', KEYS[1], ARGV[2], 'COUNT', ARGV[3], 'MATCH', ARGV[4])
  length = redis.call('ZCARD', KEYS[1])
end
return {page[1], page[2], run, length}
