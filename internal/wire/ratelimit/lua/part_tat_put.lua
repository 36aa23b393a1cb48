-- part_tat_put.lua: append a theoretical arrival time to the values to store, the part of several scripts.
-- Uses s, ns: how far it is ahead of now; now_s, now_ns, values, px
-- Returns {values; px: how long the key has to live, in ms}
-- Rounded up: a key that expires early forgets tokens that were taken.
px = math.max(px, s * 1000 + math.ceil(ns / 1e6))
s, ns = s + now_s, ns + now_ns
if ns >= 1e9 then s, ns = s + 1, ns - 1e9 end
values[#values + 1] = string.format('%.0f%09.0f', s, ns)
