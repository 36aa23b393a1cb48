-- expire.lua: give fields another deadline.
-- KEYS[1] hash   hash    {<name>}:ttlhash, as doc.go says of all three
-- KEYS[2] index  zset    {<name>}:ttlindex
-- KEYS[3] events zset    {<name>}:ttlevents
-- ARGV[1] native integer 1: the server expires fields|0: it does not
-- ARGV[2] event  integer 1: the end of a field is an event|0: it is none, unless it was one
-- ARGV[3] when   text    always|none: it has no deadline|some: it has one|later: than it has|sooner
-- ARGV[4] ttl_ms integer from now; -1: none
-- ARGV[5] want   integer 1: give the values back
-- ARGV[6..] field bytes  whose deadline it is
-- Returns {now_us integer, of each field status 1 done|0 when is not so|-2 it is not there, value bytes|'' if not wanted|nil}
-- or an error: several fields with more than 1 MiB together

-- part: index
local when, ttl, names, reply = ARGV[3], tonumber(ARGV[4]), {}, {now_us}
for i = 6, #ARGV do names[#names + 1] = ARGV[i] end
local fault = too_large(names)
if fault then return fault end
sweep(2)
local values, left = redis.call('HMGET', KEYS[1], unpack(names)), redis.call('PTTL', KEYS[1])
local deadline, last, forever, seen = 0, 0, false, {}
if ttl > 0 then deadline = math.ceil(now_us / 1000) + ttl end
for i = 1, #names do
  local name, value = names[i], values[i]
  local before, event, tag = header(value)
  if not value or before > 0 and before <= now then
    reply[2 * i], reply[2 * i + 1] = -2, false
  else
    reply[2 * i + 1] = ARGV[5] == '1' and string.sub(value, 9) or ''
    local is_later = before > 0 and (deadline == 0 or deadline > before)
    local is_sooner = deadline > 0 and (before == 0 or deadline < before)
    if seen[name] then
      reply[2 * i] = seen[name]
    elseif when == 'none' and before > 0 or when == 'some' and before == 0 or when == 'later' and not is_later or when == 'sooner' and not is_sooner then
      reply[2 * i] = 0
    else
      local was_event = event
      event = event or ARGV[2] == '1'
      if deadline == 0 then
        tag, forever = 0, true
      elseif native and not event then
        tag = 0
      elseif tag == 0 or deadline < before or event and not was_event then
        tag = file(name, deadline, ttl, event)
      end
      redis.call('HSET', KEYS[1], name, packed(deadline, event and deadline > 0, tag, string.sub(value, 9)))
      if deadline > 0 then
        last = math.max(last, event and deadline + GRACE or deadline)
        if native then expire_field(name, deadline, event) end
      end
      reply[2 * i] = 1
    end
    seen[name] = reply[2 * i]
  end
end
if last > 0 or forever then
  keep(left, last, forever)
  tidy()
end
done()
return reply
