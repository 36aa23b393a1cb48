-- migrate.lua: leave fields to a server that expires fields.
-- KEYS[1] hash    hash    {<name>}:ttlhash, as doc.go says of all three
-- KEYS[2] index   zset    {<name>}:ttlindex
-- KEYS[3] events  zset    {<name>}:ttlevents
-- ARGV[1] native  integer 1
-- ARGV[2] most    integer chunks to look at
-- ARGV[3] from_ms integer chunks that are due up to then have been looked at
-- Returns {now_us integer, migrated integer, swept integer, more 0|1, from_ms integer}

-- part: index
local migrated, swept, from = 0, 0, tonumber(ARGV[3])
local found = redis.call('ZRANGEBYSCORE', KEYS[2], string.format('%.0f', from + 1), '+inf', 'LIMIT', 0, ARGV[2])
for i = 1, #found do
  local _, at = struct.unpack('>BI6', found[i])
  if at % 2 == 1 and at > now then
    -- Fields whose end is an event stay in the index. Nothing else is due at this time.
    from = at
  else
    local s, m = visit(found[i])
    swept, migrated = swept + s, migrated + m
  end
end
if redis.call('EXISTS', KEYS[1]) == 0 then
  redis.call('UNLINK', KEYS[2])
  chunks = {}
end
done()
return {now_us, migrated, swept, #found > 0 and 1 or 0, from}
