-- part_grant.lua: give a free lock to the first fair waiter, the part of several scripts.
-- KEYS[1] lease hash {<name>}:lock, fields as doc.go says
-- Uses first (fair_first), me (its own node, or nil: that is left alone), layout, dead, now, expiry, fence
-- Returns {expiry, fence and first as they are then}
-- The first waiter gets the lock if its process lives, and has 3 s to say so. The
-- waiter behind it watches that.
local tries = 0
while first and expiry <= now and first ~= me and tries < 64 do
  tries = tries + 1
  local waiter, payload, _, behind = struct.unpack(layout, redis.call('HGET', KEYS[1], first))
  redis.call('HDEL', KEYS[1], first)
  if behind ~= '' then
    redis.call('HSET', KEYS[1], 'fair_first', behind)
    redis.call('HINCRBY', KEYS[1], 'fair', -1)
  else
    redis.call('HDEL', KEYS[1], 'fair', 'fair_first', 'fair_last')
  end
  local publish, channel = string.match(waiter, '^(%u+) (.*)$')
  -- Both commands are named, so that the engine sees that the script keeps to its keys.
  if waiter ~= dead and (publish == 'SPUBLISH' and redis.call('SPUBLISH', channel, payload) or redis.call('PUBLISH', channel, payload)) > 0 then
    fence = math.max(fence + 1, now)
    expiry = now + 3000000
    local token = string.format('%.0f', fence)
    redis.call('HSET', KEYS[1], 'id', string.sub(first, 2), 'until', string.format('%.0f', expiry), 'fence', token,
      'label', '', 'granted', token, 'granted_to', waiter)
    redis.call('PEXPIRE', KEYS[1], string.format('%.0f', 63000 + math.floor((fence - now) / 1000)))
    if behind ~= '' and behind ~= me then
      waiter, payload = struct.unpack(layout, redis.call('HGET', KEYS[1], behind))
      publish, channel = string.match(waiter, '^(%u+) (.*)$')
      if publish == 'SPUBLISH' then redis.call('SPUBLISH', channel, string.sub(payload, 1, -2)) else redis.call('PUBLISH', channel, string.sub(payload, 1, -2)) end
    end
  end
  first = behind ~= '' and behind
end
