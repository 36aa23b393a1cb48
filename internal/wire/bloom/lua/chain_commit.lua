-- chain_commit.lua: write the changes of a chain, unless the chain has changed meanwhile.
-- KEYS[1] chain  string  the client's key; as chain.go says
-- ARGV[1] before bytes   the end of the string as it was read
-- ARGV[2] at     integer where data is written
-- ARGV[3] data   bytes   the bits of the last links, and the part behind them
-- Returns {written 0|1}
if redis.call('GETRANGE', KEYS[1], -52, -1) ~= ARGV[1] then return {0} end
redis.call('SETRANGE', KEYS[1], ARGV[2], ARGV[3])
return {1}
