-- member.lua: look up in which cell members are.
-- KEYS[1] members hash {<name>:<n>}:members
-- ARGV[1..] member bytes
-- Returns {now_us integer, of each home bytes|nil: as doc.go says}
local t = redis.call('TIME')
local reply = {t[1] * 1000000 + t[2]}
for i = 1, #ARGV do reply[i + 1] = redis.call('HGET', KEYS[1], ARGV[i]) end
return reply
