-- chain_insert.lua: add items to a chain.
-- KEYS[1] chain  string  the client's key; as chain.go says
-- ARGV[1] tail   bytes   the part behind the bits of a new chain; empty: make none
-- ARGV[2] length integer of the bits of a new chain, in bytes
-- ARGV[3] longest integer how long the string may be
-- ARGV[4] most   integer looks at bits that many items may take; one item may take any number
-- ARGV[5..] hash bytes   of each item, two numbers of 64 bits, little-endian
-- Returns {status 1 done|0 there is none|-1 the key holds something else|-4 they would take more looks: nothing is done, of each item 1 new|0 not|-1 no link can follow|-2 full, and no more are looked at|-3 a link would be too long}
local tail = redis.call('GETRANGE', KEYS[1], -1112, -1)
local make = tail == '' and redis.call('EXISTS', KEYS[1]) == 0
if make then
  if ARGV[1] == '' then return {0} end
  tail = ARGV[1]
end
if string.sub(tail, -8) ~= 'RdBloom2' or #tail < 52 then return {-1} end
local size, n, options, growth, log, rest_of_log, version = struct.unpack('<I8I4I4I4ddc8', tail, #tail - 51)
if n > 20 then tail = redis.call('GETRANGE', KEYS[1], -52 - 53 * n, -1) end
-- part: chain_links
local fixed = options % 16 >= 8
local before, items = size, #ARGV - 4
local k, last_size, last_rate, last_entries
local function read_last()
  local at = links + 53 * (n - 1)
  last_size, last_rate = struct.unpack('<I8d', tail, at + 16)
  k, last_entries = struct.unpack('<I4I8', tail, at + 40)
end
read_last()

-- Estimates the looks of all items, with the links that they add and the bytes that each link moves.
if items > 1 then
  local room, entries, more, left = math.max(last_entries - last_size, 0), last_entries, 0, items
  while left > room and not fixed and entries * growth >= 1 do
    left, entries, more = left - room, entries * growth, more + 1
    room = entries
  end
  if items * (2 * (n + more) + k + more) + more * (n + more + 50) > tonumber(ARGV[4]) then return {-4} end
end
if make then redis.call('SETRANGE', KEYS[1], ARGV[2], ARGV[1]) end

-- Sets all bits of the item in the last link. Reports whether all were set before.
local function set()
  local ops = {}
  for o = 1, k do
    ops[4 * o - 3], ops[4 * o - 2], ops[4 * o - 1], ops[4 * o] = 'SET', 'u1', position(n, o), '1'
  end
  for _, old in ipairs(redis.call('BITFIELD', KEYS[1], unpack(ops))) do
    if old == 0 then return false end
  end
  return true
end

-- Adds a link.
local function grow()
  -- The logarithm of half the error rate, by Knuth's exact sum of two doubles.
  local half = -0.6931471805599453
  local sum = log + half
  local part = sum - log
  local rest = rest_of_log - 2.3190468138462996e-17 + ((log - (sum - part)) + (half - part))
  local new_log, rate, entries = sum + rest, last_rate * 0.5, last_entries * growth
  if entries < 1 or rate <= 0 then return -1 end
  local bpe = -(new_log / 0.480453013918201)
  local bytes = math.ceil(math.max(math.floor(entries * bpe), 1) / 64) * 8
  if data + bytes + 53 * (n + 1) + 52 > tonumber(ARGV[3]) then return -3 end
  log, rest_of_log = new_log, rest - (new_log - sum)
  -- The part behind the bits moves, and bits take its place.
  local behind = {
    string.sub(tail, links, links + 53 * (n - 1) + 15), struct.pack('<I8', last_size),
    string.sub(tail, links + 53 * (n - 1) + 24, links + 53 * n - 1),
    struct.pack('<I8I8I8ddI4I8B', bytes, bytes * 8, 0, rate, bpe, math.ceil(0.693147180559945 * bpe), entries, 0),
    struct.pack('<I8I4I4I4ddc8', size, n + 1, options, growth, log, rest_of_log, version), 'RdBloom2',
  }
  tail, links = table.concat(behind), 1
  redis.call('SETRANGE', KEYS[1], data, string.rep('\0', 53 * n + 52))
  redis.call('SETRANGE', KEYS[1], data + bytes, tail)
  n = n + 1
  from[n], modulus[n], data = data * 8, bytes * 8, data + bytes
  read_last()
  return 1
end

local reply = {1}
for i = 5, #ARGV do
  item(ARGV[i])
  local full, new = last_size >= last_entries, 0
  if not found(full and n or n - 1) then
    new = 1
    if full and fixed then
      new = -2
    elseif full then
      new = grow()
    end
    if new == 1 then
      if set() then
        new = 0
      else
        last_size, size = last_size + 1, size + 1
      end
    end
  end
  reply[i - 3] = new
  if new == -2 then break end
end
if size > before then
  redis.call('SETRANGE', KEYS[1], data + 53 * n, struct.pack('<I8', size))
  redis.call('SETRANGE', KEYS[1], data + 53 * (n - 1) + 16, struct.pack('<I8', last_size))
end
return reply
