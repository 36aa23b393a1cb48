-- part_wake.lua: wake all that wait for an entry, the part of several scripts.
-- KEYS[1] entry string {<cache>:<key>}:cache, as doc.go says
-- Uses waiters: the part after the payload
-- Returns {}
-- One for each process that waits, at most 64 KiB of them: see lease.lua.
local at = 1
while at < #waiters do
  local waiter
  waiter, at = struct.unpack('>I2c0', waiters, at)
  local publish, channel = string.match(waiter, '^(%u+) (.*) %x+$')
  -- Both commands are named, so that the engine sees that the script keeps to its keys.
  if publish == 'SPUBLISH' then redis.call('SPUBLISH', channel, KEYS[1]) else redis.call('PUBLISH', channel, KEYS[1]) end
end
