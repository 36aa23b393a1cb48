-- multi_acquire.lua: take the leases on several locks of one slot, all or none.
-- KEYS[1..] leases hash    {<name>}:lock each, fields as doc.go says
-- ARGV[1] id      bytes    names this acquisition on each, made by the client
-- ARGV[2] ttl_us  integer  > 0
-- ARGV[3] keep_ms integer  the ttl and a minute: how long the keys live
-- ARGV[4] label   bytes    shown to people, may be empty
-- Returns {status 1 acquired|0 held by another|-1 this id is over, at integer: which key is busy or over, ttl_us integer, label bytes of its holder, fences array in the order of the keys, of its holder alone when busy}
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local left, fences, mine = tonumber(ARGV[2]), {}, {}
for i, key in ipairs(KEYS) do
  local held = redis.call('HMGET', key, 'id', 'until', 'fence', 'label', 'last', 'void', 'fair_first')
  local expiry = tonumber(held[2] or 0)
  local fence = tonumber(held[3] or 0)
  if held[1] == ARGV[1] and expiry > now then -- the same again, after a lost reply
    mine[i] = true
    fences[i] = fence
    left = math.min(left, expiry - now)
  elseif held[1] == ARGV[1] or held[5] == ARGV[1] or held[6] == ARGV[1] then
    return {-1, i, 0, '', {fence}}
  elseif held[7] and expiry <= now and expiry + 3000000 > now then -- as in acquire.lua
    return {0, i, expiry + 3000000 - now, held[4], {fence}}
  elseif expiry > now then
    return {0, i, expiry - now, held[4], {fence}}
  else
    fences[i] = math.max(fence + 1, now)
  end
end

for i, key in ipairs(KEYS) do
  if not mine[i] then
    redis.call('HSET', key, 'id', ARGV[1], 'until', string.format('%.0f', now + ARGV[2]),
      'fence', string.format('%.0f', fences[i]), 'label', ARGV[4])
    -- As in acquire.lua.
    local keep_ms = ARGV[3]
    if fences[i] > now then keep_ms = keep_ms + math.floor((fences[i] - now) / 1000) end
    redis.call('PEXPIRE', key, keep_ms)
  end
end
return {1, 0, left, ARGV[4], fences}
