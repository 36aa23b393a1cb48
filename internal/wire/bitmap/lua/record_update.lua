-- record_update.lua: make all changes of a record, or none.
-- KEYS[1] record string  {<name>}:record: its fields, packed as BITFIELD does
-- ARGV[1] ttl_ms integer how long the record is kept from now on; 0: unchanged
-- ARGV[2..] op   text    arguments of BITFIELD: SET and INCRBY, each with an OVERFLOW before it
-- Returns {refused integer: the number, from 1, of the first op that would overflow, and nothing was changed; 0 all are done, record bytes}
local before = redis.call('GET', KEYS[1])
for i, value in ipairs(redis.call('BITFIELD', KEYS[1], unpack(ARGV, 2))) do
  -- Only nil is tested: a double does not hold every value.
  if not value then
    if before then redis.call('SET', KEYS[1], before, 'KEEPTTL') else redis.call('DEL', KEYS[1]) end
    return {i, before or ''}
  end
end
if ARGV[1] ~= '0' then redis.call('PEXPIRE', KEYS[1], ARGV[1]) end
return {0, redis.call('GET', KEYS[1])}
