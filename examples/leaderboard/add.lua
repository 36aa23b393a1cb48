-- add.lua: adds points to a player on several boards at once.
-- KEYS[1..] boards zset    {<game>}:board:<window>
-- ARGV[1] player   string  the member
-- ARGV[2] points   integer 1 to 2^53
-- ARGV[3..] keep_s integer how long each board lives after this, in the order of KEYS; 0: for ever
-- Returns the player's points on the first board, a string
local first
for i, key in ipairs(KEYS) do
	local points = redis.call('ZINCRBY', key, ARGV[2], ARGV[1])
	first = first or points
	if ARGV[2 + i] ~= '0' then
		redis.call('EXPIRE', key, ARGV[2 + i])
	end
end
return first
