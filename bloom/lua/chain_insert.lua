-- chain_insert.lua: add items to a chain.
-- KEYS[1] chain  string  the client's key; as chain.go says
-- ARGV[1] tail   bytes   what stands behind the bits of a new one; empty: make none
-- ARGV[2] length integer of the bits of a new one, in bytes
-- ARGV[3] most   integer how long a string may be
-- ARGV[4..] hash bytes   of each item, two numbers of 64 bits, little-endian
-- Returns {status 1 done|0 there is none|-1 the key holds something else, of each item 1 new|0 not|-1 no link can follow|-2 full, and no more are looked at|-3 a link would be too long}
local tail = redis.call('GETRANGE', KEYS[1], -1104, -1)
if tail == '' and redis.call('EXISTS', KEYS[1]) == 0 then
  if ARGV[1] == '' then return {0} end
  redis.call('SETRANGE', KEYS[1], ARGV[2], ARGV[1])
  tail = ARGV[1]
end
if string.sub(tail, -8) ~= 'RdBloom1' or #tail < 44 then return {-1} end
local size, n, options, growth, high, low = struct.unpack('<I8I4I4I4dd', tail, #tail - 43)
if n > 20 then tail = redis.call('GETRANGE', KEYS[1], -44 - 53 * n, -1) end

local links, data, at = {}, 0, #tail - 43 - 53 * n
for i = 1, n do
  local l = {from = data * 8}
  l.bytes, l.bits, l.size, l.rate, l.bpe, l.hashes, l.entries, l.n2 = struct.unpack('<I8I8I8ddI4I8B', tail, at)
  l.modulus = l.bits
  if l.n2 > 0 then l.modulus = 2 ^ l.n2 end
  links[i], data, at = l, data + l.bytes, at + 53
end

-- Reports whether all bits of an item were set, after which they are, if op is SET.
local function has(l, op, hash)
  local a_low, a_high, b_low, b_high = struct.unpack('<I4I4I4I4', hash)
  local m, ops, o = l.modulus, {}, 0
  for _ = 1, l.hashes do
    -- The remainder of 64 bits, in steps that a double holds.
    local bit = ((a_high % m) * 65536 + math.floor(a_low / 65536)) % m
    bit = (bit * 65536 + a_low % 65536) % m
    -- The module counts the bits of a byte from the lowest, SETBIT from the highest.
    ops[o + 1], ops[o + 2], ops[o + 3] = op, 'u1', l.from + bit + 7 - 2 * (bit % 8)
    o = o + 3
    if op == 'SET' then
      o = o + 1
      ops[o] = '1'
    end
    a_low, a_high = a_low + b_low, a_high + b_high
    if a_low >= 4294967296 then a_low, a_high = a_low - 4294967296, a_high + 1 end
    a_high = a_high % 4294967296
  end
  for _, old in ipairs(redis.call('BITFIELD', KEYS[1], unpack(ops))) do
    if old == 0 then return false end
  end
  return true
end

-- Adds a link.
local function grow(last)
  -- The logarithm of half the error rate, by Knuth's exact sum of two doubles.
  local half = -0.6931471805599453
  local sum = high + half
  local part = sum - high
  local rest = low - 2.3190468138462996e-17 + ((high - (sum - part)) + (half - part))
  local log = sum + rest
  local l = {from = data * 8, size = 0, rate = last.rate * 0.5, entries = last.entries * growth, n2 = 0}
  if l.entries < 1 or l.rate <= 0 then return -1 end
  l.bpe = -(log / 0.480453013918201)
  l.bytes = math.ceil(math.max(math.floor(l.entries * l.bpe), 1) / 64) * 8
  l.bits, l.hashes = l.bytes * 8, math.ceil(0.693147180559945 * l.bpe)
  l.modulus = l.bits
  if data + l.bytes + 53 * (n + 1) + 44 > tonumber(ARGV[3]) then return -3 end
  -- What stands behind the bits moves, and its place becomes bits.
  local behind = {}
  for i = 1, n do
    local k = links[i]
    behind[i] = struct.pack('<I8I8I8ddI4I8B', k.bytes, k.bits, k.size, k.rate, k.bpe, k.hashes, k.entries, k.n2)
  end
  behind[n + 1] = struct.pack('<I8I8I8ddI4I8B', l.bytes, l.bits, 0, l.rate, l.bpe, l.hashes, l.entries, 0)
  high, low = log, rest - (log - sum)
  behind[n + 2] = struct.pack('<I8I4I4I4dd', size, n + 1, options, growth, high, low)
  behind[n + 3] = 'RdBloom1'
  redis.call('SETRANGE', KEYS[1], data, string.rep('\0', 53 * n + 44))
  redis.call('SETRANGE', KEYS[1], data + l.bytes, table.concat(behind))
  n, data = n + 1, data + l.bytes
  links[n] = l
  return 1
end

local before, fixed = size, options % 16 >= 8
local reply = {1}
for i = 4, #ARGV do
  local found, new = false, 0
  local last = links[n]
  local full = last.size >= last.entries
  for j = n, 1, -1 do
    if (j < n or full) and has(links[j], 'GET', ARGV[i]) then
      found = true
      break
    end
  end
  if not found then
    new = 1
    if full and fixed then
      new = -2
    elseif full then
      new = grow(last)
      last = links[n]
    end
    if new == 1 then
      if has(last, 'SET', ARGV[i]) then
        new = 0
      else
        last.size, size = last.size + 1, size + 1
      end
    end
  end
  reply[i - 2] = new
  if new == -2 then break end
end
if size > before then
  redis.call('SETRANGE', KEYS[1], data + 53 * n, struct.pack('<I8', size))
  redis.call('SETRANGE', KEYS[1], data + 53 * (n - 1) + 16, struct.pack('<I8', links[n].size))
end
return reply
