-- pump.lua: settle messages, bring back due and abandoned messages, and take some.
-- A receipt is the 16 bytes of the take and the id.
-- KEYS[1] queue   hash    {<name>}:queue, ids to envelopes
-- KEYS[2] ready   zset    ids by rank of their lane and since when they are ready
-- KEYS[3] groups  zset    a group, a place in its line, an id
-- KEYS[4] due     zset    ids by when they are due, in ms since 1970
-- KEYS[5] dead    zset    ids by when they died
-- KEYS[6] fails   hash    ids to how often they failed, and the last reason
-- KEYS[7] wake    zset    the marker that wakes one consumer
-- KEYS[8] leases  zset    receipts by when their lease ends, in ms since 1970
-- KEYS[9] config  hash    paused, concurrency, interval_us and burst of the rate, tat_us: its theoretical arrival time
-- KEYS[10..] after zset   blocked, links and ended: see the part after; behind them
-- taken, a string: what this consumer took last: the 16 bytes of the take, and when the lease ends;
-- and strings: what a message has left behind, one for each of ARGV's results
-- ARGV[1] take    bytes   16 bytes that no other take has. Repeated, it gives the same messages
-- ARGV[2] n       integer take at most so many, and 2 MiB unless it is one; 0 only settles, -1 also wakes another consumer, for this one leaves
-- ARGV[3] lease_ms integer > 0
-- ARGV[4] acks    integer how many
-- ARGV[5] results integer how many
-- ARGV[6] flags   integer 1: gives what this consumer took last and still has, if anything, under the name it was taken by;
-- 2: settles several messages only if they have 2 MiB together, 16 MiB where none has a group
-- ARGV[7..] settled bytes the receipts of the acks; of the results three each: receipt, keep_ms, value; of what failed four each:
-- receipt; fail: counts|dead|snooze: doesn't count|back: at once, doesn't count; delay_ms, -1 a second doubled with each failure; reason
-- Returns {now_ms integer, next_ms integer: pump again after so long, -1 never, ready integer, again 0|1: the take is repeated,
-- refused array of integers: the positions of receipts that were not held, taken array: four a message: receipt, fails text, since_ms, envelope}
-- or an error: what is to be settled has more bytes
local t = redis.call('TIME')
local BLOCKED, LINKS, ENDED = 10, 11, 12
-- part: place
-- part: after
local now, us = t[1] * 1000 + math.floor(t[2] / 1000), t[1] * 1000000 + t[2] - 1577836800000000
local n, acks, results = tonumber(ARGV[2]), tonumber(ARGV[4]), tonumber(ARGV[5])
local groups = redis.call('EXISTS', KEYS[3]) == 1
local special = groups or redis.call('EXISTS', KEYS[6]) == 1 -- groups, or failures
local linked, more = redis.call('EXISTS', KEYS[LINKS], KEYS[ENDED]) > 0, false
local repeats, checks = ARGV[6] % 2 == 1, ARGV[6] >= '2'

local function ids_of(receipts)
  local ids = {}
  for i, receipt in ipairs(receipts) do ids[i] = string.sub(receipt, 17) end
  return ids
end

-- How often a message failed, by its entry in KEYS[6].
local function count(entry) return entry and tonumber(string.match(entry, '^%d+')) or 0 end

-- The time after the n-th failure, where nobody says it, in ms.
local function backoff(n) return math.min(1000 * 2 ^ (n - 1), 600000) end

-- Notes the n-th failure of a message, which dies of it or is due again at a time in
-- ms; 0 is at once, in front of all others.
local function fail(id, envelope, n, reason, now, us, again)
  local attempts = (string.byte(envelope, 2) or 0) * 256 + (string.byte(envelope, 3) or 0)
  redis.call('HSET', KEYS[6], id, table.concat({string.format('%.0f', n), ' ', reason}))
  if not again or attempts > 0 and n >= attempts then
    redis.call('ZADD', KEYS[5], string.format('%.0f', now), id)
    queue.leave(id, envelope, us)
    if linked then queue.ended(id, 1) end
  elseif again == 0 and (attempts > 0 or n < 2) then
    queue.ready(id, envelope, 0)
  elseif again == 0 then -- it never dies: others get their turn first
    redis.call('ZADD', KEYS[4], string.format('%.0f', now + backoff(n)), id)
  else
    redis.call('ZADD', KEYS[4], string.format('%.0f', again), id)
  end
end

-- The time after a delay, in ms, rounded up: not before the delay is over.
local function after(delay) return delay > 0 and t[1] * 1000 + math.ceil(t[2] / 1000) + delay or now end

-- Settle.
local refused, receipts = {}, {}
local nacks = 7 + acks + 3 * results
for i = 7, 6 + acks do receipts[#receipts + 1] = ARGV[i] end
for i = 7 + acks, nacks - 1, 3 do receipts[#receipts + 1] = ARGV[i] end
for i = nacks, #ARGV, 4 do receipts[#receipts + 1] = ARGV[i] end
if #receipts > 1 and checks then
  local most = (groups or #receipts > acks) and READ or FREE
  if queue.fit(ids_of(receipts), most) < #receipts then
    return redis.error_reply(table.concat({'ERR redoubt: these messages have more than ', string.format('%.0f', most / 1048576), ' MiB together: settle fewer at a time'}))
  end
end
if #receipts > 0 then
  local ends = redis.call('ZMSCORE', KEYS[8], unpack(receipts))
  local held, done, failed, met = {}, {}, {}, {}
  for i, receipt in ipairs(receipts) do
    if not ends[i] or met[receipt] then
      refused[#refused + 1] = i
    else
      met[receipt] = true
      held[#held + 1] = receipt
      if i <= acks + results then done[#done + 1] = string.sub(receipt, 17) end
      if i > acks and i <= acks + results then
        local at = 7 + acks + 3 * (i - acks - 1)
        redis.call('SET', KEYS[13 + i - acks], ARGV[at + 2], 'PX', ARGV[at + 1])
      elseif i > acks + results then
        failed[#failed + 1] = i
      end
    end
  end
  if #held > 0 then redis.call('ZREM', KEYS[8], unpack(held)) end
  if #done > 0 then
    if groups then
      for i, envelope in ipairs(redis.call('HMGET', KEYS[1], unpack(done))) do
        if envelope then queue.leave(done[i], envelope, us) end
      end
    end
    if special then redis.call('HDEL', KEYS[6], unpack(done)) end
    redis.call('HDEL', KEYS[1], unpack(done))
    if linked then
      for _, id in ipairs(done) do queue.ended(id, 0) end
    end
  end
  for _, i in ipairs(failed) do
    local at = nacks + 4 * (i - acks - results - 1)
    local id, how, delay = string.sub(ARGV[at], 17), ARGV[at + 1], tonumber(ARGV[at + 2])
    local envelope, fails = redis.call('HGET', KEYS[1], id), redis.call('HGET', KEYS[6], id)
    if not envelope then
      refused[#refused + 1] = i -- something else took it away
    elseif how == 'back' then
      queue.ready(id, envelope, 0)
    elseif how == 'snooze' then
      redis.call('ZADD', KEYS[4], string.format('%.0f', after(delay)), id)
    else
      local times = count(fails) + 1
      if delay < 0 then delay = backoff(times) end
      fail(id, envelope, times, ARGV[at + 3], now, us, how == 'fail' and after(delay))
      special = true
    end
  end
end

-- Abandoned messages come back in front, because they have waited before.
local function time_of(first) return tonumber(first[2]) end
local lease_end = time_of(redis.call('ZRANGE', KEYS[8], 0, 0, 'WITHSCORES'))
if lease_end and lease_end <= now then
  local lapsed = redis.call('ZRANGEBYSCORE', KEYS[8], '-inf', string.format('%.0f', now), 'LIMIT', 0, 256)
  local ids = ids_of(lapsed)
  local fit = queue.fit(ids, READ)
  redis.call('ZREM', KEYS[8], unpack(lapsed, 1, fit))
  local envelopes, fails = redis.call('HMGET', KEYS[1], unpack(ids, 1, fit)), redis.call('HMGET', KEYS[6], unpack(ids, 1, fit))
  for i, id in ipairs(ids) do
    if envelopes[i] then fail(id, envelopes[i], count(fails[i]) + 1, 'its lease ran out', now, us, 0) end
  end
  special, lease_end = true, time_of(redis.call('ZRANGE', KEYS[8], 0, 0, 'WITHSCORES'))
end

if linked then more = queue.release(t) end
local due = queue.promote(now)
queue.flush()

-- How many may be taken.
local config = redis.call('HMGET', KEYS[9], 'paused', 'concurrency', 'interval_us', 'burst', 'tat_us')
local room, interval, tat, token = 1000000, tonumber(config[3]), us, nil
if config[2] then room = config[2] - redis.call('ZCARD', KEYS[8]) end
if interval then
  tat = math.max(tonumber(config[5] or 0), us)
  room = math.min(room, math.floor((us - tat) / interval + config[4]))
end
if config[1] then room = 0 end

-- The same take again, after a lost reply: the same messages.
local taken, ids, since, again, left, take = {}, {}, {}, 0, nil, ARGV[1]
local prior = n > 0 and redis.call('GET', KEYS[13])
if prior and (repeats or string.sub(prior, 1, 16) == take) then
  local last, ends = string.sub(prior, 1, 16), string.sub(prior, 17)
  for _, receipt in ipairs(redis.call('ZRANGEBYSCORE', KEYS[8], ends, ends)) do
    if string.sub(receipt, 1, 16) == last then ids[#ids + 1], again, take = string.sub(receipt, 17), 1, last end
  end
end
if again == 0 and n > 0 and room > 0 then
  local popped = redis.call('ZPOPMIN', KEYS[2], math.min(n, room))
  for i = 1, #popped, 2 do
    ids[#ids + 1] = popped[i]
    since[#since + 1] = math.floor((popped[i + 1] % 2251799813685248 + 1577836800000000) / 1000)
  end
  if #ids < n and #ids < room then left = 0 end
  local fit = queue.fit(ids, READ)
  for i = #ids, fit + 1, -1 do
    redis.call('ZADD', KEYS[2], popped[2 * i], popped[2 * i - 1])
    ids[i], since[i], left = nil, nil, nil
  end
end
if #ids > 0 then
  local envelopes, fails = redis.call('HMGET', KEYS[1], unpack(ids)), {}
  if special then fails = redis.call('HMGET', KEYS[6], unpack(ids)) end
  local leases, lease = {}, string.format('%.0f', now + ARGV[3])
  for i, id in ipairs(ids) do
    if envelopes[i] then
      local receipt = table.concat({take, id})
      leases[#leases + 1] = lease
      leases[#leases + 1] = receipt
      taken[#taken + 1] = receipt
      taken[#taken + 1] = fails[i] or ''
      taken[#taken + 1] = since[i] or 0
      taken[#taken + 1] = envelopes[i]
    end
  end
  if again == 0 and #leases > 0 then
    redis.call('ZADD', KEYS[8], unpack(leases))
    redis.call('SET', KEYS[13], table.concat({take, lease}), 'PX', ARGV[3])
    lease_end = math.min(lease_end or tonumber(lease), tonumber(lease))
    room = room - #leases / 2
    if interval then
      tat = tat + interval * #leases / 2
      redis.call('HSET', KEYS[9], 'tat_us', string.format('%.0f', tat))
    end
  end
elseif prior then
  redis.call('DEL', KEYS[13])
end

-- While a message can be taken, wake another consumer. A consumer that only settles leaves the
-- marker to consumers that learn from their pump when to come again.
left = left or redis.call('ZCARD', KEYS[2])
if left > 0 and room > 0 or more or n <= 0 and queue.sooner or n < 0 and (left > 0 or due or lease_end) then
  redis.call('ZADD', KEYS[7], 0, '1')
elseif n > 0 or left == 0 and not due and not lease_end then
  redis.call('DEL', KEYS[7])
end
if interval and left > 0 and not config[1] then
  local wait = tat - us + interval - interval * config[4]
  if wait > 0 then token = now + math.ceil(wait / 1000) end -- else it is not the rate that they wait for
end

local at = nil
for _, ms in ipairs({due or false, lease_end or false, token or false, more and now}) do
  if ms and (not at or ms < at) then at = ms end
end
return {now, at and math.max(at - now, 0) or -1, left, again, refused, taken}
