-- quorum_extend.lua: prolong the part of a lease on this master, or take it anew if nobody holds it here.
-- KEYS[1] lease   hash    {<name>}:lock, fields as doc.go says
-- ARGV[1] id      bytes   names the acquisition
-- ARGV[2] ttl_us  integer > 0, from now
-- ARGV[3] keep_ms integer the ttl and a minute: how long the key lives
-- ARGV[4] label   bytes   shown to people, may be empty
-- ARGV[5] fence   integer the lease's token: later ones are larger, here too
-- Returns {held 0|1, fence integer, ttl_us integer: the time left}
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local held = redis.call('HMGET', KEYS[1], 'id', 'until', 'fence', 'last', 'void')
local fence = tonumber(held[3] or 0)
local left = tonumber(held[2] or 0) - now
if left > 0 and held[1] ~= ARGV[1] then return {0, fence, 0} end
-- A copy that arrives after the release, or after the attempt was given up; or the
-- lease was taken away by force.
local ended = held[1] == ARGV[1] and held[2] == '0'
if ended or held[4] == ARGV[1] or held[5] == ARGV[1] then return {0, fence, 0} end

left = math.max(left, tonumber(ARGV[2]))
fence = math.max(fence, tonumber(ARGV[5]))
redis.call('HSET', KEYS[1], 'id', ARGV[1], 'until', string.format('%.0f', now + left),
  'fence', string.format('%.0f', fence), 'label', ARGV[4])
local keep_ms = tonumber(ARGV[3])
if left > tonumber(ARGV[2]) then keep_ms = math.floor(left / 1000) + 60000 end
if fence > now then keep_ms = keep_ms + math.floor((fence - now) / 1000) end
redis.call('PEXPIRE', KEYS[1], keep_ms)
return {1, fence, left}
