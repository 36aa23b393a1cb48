-- part_chain_links.lua: read the links of a chain and look at their bits, the part of several scripts.
-- KEYS[1] chain string the client's key; as chain.go says
-- Uses tail: the part behind the bits; n: how many links
-- Returns {links, what each is at in tail; from, modulus: where the bits of each begin, how many positions they have; data: bytes of all}
local links, from, modulus, data = #tail - 51 - 53 * n, {}, {}, 0
for i = 1, n do
  local at = links + 53 * (i - 1)
  local bytes, n2 = struct.unpack('<I8', tail, at), string.byte(tail, at + 52)
  from[i], modulus[i], data = data * 8, bytes * 8, data + bytes
  if n2 > 0 then modulus[i] = 2 ^ n2 end
end

local function hashes(i) return (struct.unpack('<I4', tail, links + 53 * (i - 1) + 40)) end

-- The o-th position of an item is a + (o - 1) * b, of 64 bits, modulo what a link has.
local low, high, step_low, step_high, known
local function item(hash)
  low, high, known = {}, {}, 1
  low[1], high[1], step_low, step_high = struct.unpack('<I4I4I4I4', hash)
end
local function position(i, o)
  while known < o do
    local l, h = low[known] + step_low, high[known] + step_high
    if l >= 4294967296 then l, h = l - 4294967296, h + 1 end
    known = known + 1
    low[known], high[known] = l, h % 4294967296
  end
  -- The remainder of 64 bits, in steps that a double holds.
  local m, l = modulus[i], low[o]
  local bit = ((high[o] % m) * 65536 + math.floor(l / 65536)) % m
  bit = (bit * 65536 + l % 65536) % m
  -- The module counts the bits of a byte from the lowest, SETBIT from the highest.
  return from[i] + bit + 7 - 2 * (bit % 8)
end

-- Reports whether one of the first links has the item. Half of the bits of a full link are
-- set, so a few positions show that a link does not have it; and one call reads many links.
local function found(upto)
  local left, o = {}, 1
  for i = 1, upto do left[i] = i end
  while #left > 0 do
    local stay, at = {}, 1
    local wide = 1
    if #left == 1 then
      wide = 4 * o
    elseif #left < 8 then
      wide = o
    end
    while at <= #left do
      local ops, asked, count = {}, at, 0
      while at <= #left and count < 1000 do
        for p = o, math.min(o + wide - 1, hashes(left[at])) do
          ops[3 * count + 1], ops[3 * count + 2], ops[3 * count + 3] = 'GET', 'u1', position(left[at], p)
          count = count + 1
        end
        at = at + 1
      end
      local bits, b = redis.call('BITFIELD_RO', KEYS[1], unpack(ops)), 0
      for j = asked, at - 1 do
        local k, all = hashes(left[j]), true
        for _ = o, math.min(o + wide - 1, k) do
          b = b + 1
          all = all and bits[b] == 1
        end
        if all and k < o + wide then return true end
        if all then stay[#stay + 1] = left[j] end
      end
    end
    left, o = stay, o + wide
  end
  return false
end
