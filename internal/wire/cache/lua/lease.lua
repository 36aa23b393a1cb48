-- lease.lua: take the lease on an entry, or learn that another has it, or read a fresh value.
-- KEYS[1] entry    string  {<cache>:<key>}:cache, as doc.go says
-- A cache with tags names a second key, which this script doesn't use.
-- ARGV[1] owner    bytes   8, names this attempt and no other
-- ARGV[2] lease_us integer > 0
-- ARGV[3] seen     bytes   8, the id of the value to replace; or empty
-- ARGV[4] waiter   bytes   PUBLISH or SPUBLISH, the channel to wake, the cache in it; empty: don't wait
-- Returns {status 2 there is a fresh value|1 granted|0 another loads, now_us integer, left_us integer, entry bytes or ''}
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
-- part: head
local entry = kind ~= '-' and redis.call('GET', KEYS[1]) or ''
if kind ~= '-' and fresh > now and id ~= ARGV[3] then return {2, now, 0, entry} end

if ends > now then
  if ARGV[4] ~= '' then
    local waiter = struct.pack('>I2c0', #ARGV[4], ARGV[4])
    local waiters = redis.call('GETRANGE', KEYS[1], 47 + size, -1)
    -- A waiter that finds no room asks again when the lease ends.
    if #waiters < 65536 and not string.find(waiters, waiter, 1, true) then redis.call('APPEND', KEYS[1], waiter) end
  end
  return {0, now, ends - now, entry}
end

local lease_ms = math.ceil(ARGV[2] / 1000)
if known then -- waiters for a process that died keep waiting
  redis.call('SETRANGE', KEYS[1], 19, struct.pack('>I8', now + ARGV[2]))
  redis.call('SETRANGE', KEYS[1], 35, ARGV[1])
  -- With its lease a value may live a little longer than its TTL; a reader sees how old it is.
  if redis.call('PTTL', KEYS[1]) < lease_ms then redis.call('PEXPIRE', KEYS[1], string.format('%.0f', lease_ms)) end
else
  local none = '\0\0\0\0\0\0\0\0'
  redis.call('SET', KEYS[1], struct.pack('>c3I8I8I8c8c8I4', '\1-.', 0, 0, now + ARGV[2], none, ARGV[1], 0),
    'PX', string.format('%.0f', lease_ms))
end
return {1, now, tonumber(ARGV[2]), entry}
