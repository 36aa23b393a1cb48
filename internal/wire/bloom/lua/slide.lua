-- slide.lua: describe a new sliding filter, or read the description.
-- KEYS[1] filter  hash    {<name>}:sliding, fields as doc.go says
-- ARGV[1] spec    text    describes a new filter; empty: make none
-- ARGV[2] made    integer a period whose keys were made; empty: none
-- ARGV[3] oldest  integer the oldest period that is still read
-- ARGV[4] ttl_ms  integer how long the description outlives the last period that was made
-- Returns {now_us integer, spec text|nil, periods {integer of each whose keys were made}}
local t = redis.call('TIME')
if ARGV[1] ~= '' and redis.call('HSETNX', KEYS[1], 'spec', ARGV[1]) == 1 then redis.call('PEXPIRE', KEYS[1], ARGV[4]) end
if ARGV[2] ~= '' and redis.call('EXISTS', KEYS[1]) == 1 then
  redis.call('HSET', KEYS[1], ARGV[2], '1')
  redis.call('PEXPIRE', KEYS[1], ARGV[4])
end
local periods = {}
for _, field in ipairs(redis.call('HKEYS', KEYS[1])) do
  local period = tonumber(field)
  if period and period < tonumber(ARGV[3]) then
    redis.call('HDEL', KEYS[1], field)
  elseif period then
    periods[#periods + 1] = period
  end
end
return {t[1] * 1000000 + t[2], redis.call('HGET', KEYS[1], 'spec'), periods}
