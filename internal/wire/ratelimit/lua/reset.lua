-- reset.lua: forget what was taken under a name.
-- KEYS[1..] taken any what each algorithm keeps
-- Returns {forgotten integer}: how many keys there were
return {redis.call('DEL', unpack(KEYS))}
