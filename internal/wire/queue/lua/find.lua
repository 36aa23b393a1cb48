-- find.lua: look at one message, wherever it is.
-- KEYS[1] queue   hash    {<name>}:queue, ids to envelopes
-- KEYS[2] ready   zset    ids by rank of their lane and since when they are ready
-- KEYS[3] due     zset    ids by when they are due, in ms since 1970
-- KEYS[4] dead    zset    ids by when they died
-- KEYS[5] fails   hash    ids to how often they failed, and the last reason
-- KEYS[6] leases  zset    receipts by when their lease ends, in ms since 1970
-- KEYS[7] blocked zset    see the part after
-- KEYS[8] result  string  what the message has left behind
-- KEYS[9] progress string the 16 bytes of the take that noted it, and the note
-- ARGV[1] id      bytes
-- ARGV[2] seen    bytes   the receipt under which it was seen; - nowhere, '' nobody has looked
-- Returns {state text: absent|ready|due|running|dead|waiting|blocked|done|'' its receipt is to be looked for, score text, fails text, envelope, or the result when it is done, progress text, '' if none is noted}
local id = ARGV[1]
local envelope = redis.call('HGET', KEYS[1], id)
if not envelope then
  local result = redis.call('GET', KEYS[8])
  return {result and 'done' or 'absent', '', '', result or '', ''}
end
local state, score, receipt = 'waiting', redis.call('ZSCORE', KEYS[2], id), ''
if score then
  state = 'ready'
else
  score = redis.call('ZSCORE', KEYS[3], id)
  if score then
    state = 'due'
  else
    score = redis.call('ZSCORE', KEYS[4], id)
    if score then
      state = 'dead'
    elseif redis.call('ZSCORE', KEYS[7], id) then
      state, score = 'blocked', redis.call('ZSCORE', KEYS[7], id)
    elseif redis.call('ZCARD', KEYS[6]) > 4000 then -- nobody goes over so many at once
      score = string.sub(ARGV[2], 17) == id and redis.call('ZSCORE', KEYS[6], ARGV[2])
      if score then
        state, receipt = 'running', ARGV[2]
      elseif ARGV[2] ~= '-' then
        return {'', '', '', '', ''}
      end
    else
      local leases = redis.call('ZRANGE', KEYS[6], 0, -1, 'WITHSCORES')
      for i = 1, #leases, 2 do
        if string.sub(leases[i], 17) == id then state, score, receipt = 'running', leases[i + 1], leases[i] end
      end
    end
  end
end
local progress = state == 'running' and redis.call('GET', KEYS[9]) or ''
if string.sub(progress, 1, 16) ~= string.sub(receipt, 1, 16) then progress = '' end -- another take noted it
return {state, score or '', redis.call('HGET', KEYS[5], id) or '', envelope, string.sub(progress, 17)}
