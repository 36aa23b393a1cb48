-- extend.lua: prolong leases that are still held.
-- KEYS[1] leases  zset    receipts by when their lease ends, in ms since 1970
-- ARGV[1] lease_ms integer > 0: from now. A lease is never made shorter
-- ARGV[2..] receipts bytes at most 1000
-- Returns {held 0|1 of each receipt}
local t = redis.call('TIME')
local lease = string.format('%.0f', t[1] * 1000 + math.floor(t[2] / 1000) + ARGV[1])
local receipts, leases, held = {}, {}, {}
for i = 2, #ARGV do receipts[i - 1] = ARGV[i] end
for i, score in ipairs(redis.call('ZMSCORE', KEYS[1], unpack(receipts))) do
  held[i] = score and 1 or 0
  if score then
    leases[#leases + 1] = lease
    leases[#leases + 1] = receipts[i]
  end
end
if #leases > 0 then redis.call('ZADD', KEYS[1], 'XX', 'GT', unpack(leases)) end
return held
