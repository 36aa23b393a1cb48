-- scheduled.lua: note which queues have schedules, for processes that put the messages of all queues.
-- KEYS[1] names   zset    {schedules}:queue:scheduled, queues by when a schedule was put last, in ms since 1970
-- ARGV[1] how     add|drop drop: only names that were added more than an hour ago
-- ARGV[2..] names bytes   at most 1000
-- Returns {changed integer}
local t = redis.call('TIME')
local now, changed = t[1] * 1000 + math.floor(t[2] / 1000), 0
for i = 2, #ARGV do
  if ARGV[1] == 'add' then
    changed = changed + redis.call('ZADD', KEYS[1], string.format('%.0f', now), ARGV[i])
  elseif (tonumber(redis.call('ZSCORE', KEYS[1], ARGV[i])) or now) < now - 3600000 then
    changed = changed + redis.call('ZREM', KEYS[1], ARGV[i])
  end
end
return {changed}
