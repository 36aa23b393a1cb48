-- list.lua: look at messages of one state, in order, without taking them.
-- KEYS[1] queue   hash    {<name>}:queue, ids to envelopes
-- KEYS[2] fails   hash    ids to how often they failed, and the last reason
-- KEYS[3] state   zset    ready, due, leases, dead or blocked
-- ARGV[1] from    integer 0 is the first
-- ARGV[2] count   integer at most 1000; fewer come when they have more than 2 MiB together
-- ARGV[3] prefix  integer how many bytes stand before an id: 16 of leases, else 0
-- Returns {now_ms integer, in all integer, messages array: four a message: id, score text, fails text, envelope}
local t = redis.call('TIME')
local page = redis.call('ZRANGE', KEYS[3], ARGV[1], ARGV[1] + ARGV[2] - 1, 'WITHSCORES')
local ids, messages = {}, {}
for i = 1, #page, 2 do ids[#ids + 1] = string.sub(page[i], ARGV[3] + 1) end
-- No more than 2 MiB, but for one, for which a script needs 6 ms.
local fit, bytes = 0, 0
while fit < #ids and (fit == 0 or bytes <= 2097152) do
  bytes = bytes + redis.call('HSTRLEN', KEYS[1], ids[fit + 1])
  if fit == 0 or bytes <= 2097152 then fit = fit + 1 end
end
for i = #ids, fit + 1, -1 do ids[i] = nil end
if #ids > 0 then
  local envelopes, fails = redis.call('HMGET', KEYS[1], unpack(ids)), redis.call('HMGET', KEYS[2], unpack(ids))
  for i, id in ipairs(ids) do
    if envelopes[i] then
      messages[#messages + 1] = id
      messages[#messages + 1] = page[2 * i]
      messages[#messages + 1] = fails[i] or ''
      messages[#messages + 1] = envelopes[i]
    end
  end
end
return {t[1] * 1000 + math.floor(t[2] / 1000), redis.call('ZCARD', KEYS[3]), messages}
