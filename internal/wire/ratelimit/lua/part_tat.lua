-- part_tat.lua: read the next theoretical arrival time, the part of several scripts.
-- Uses what part_tats.lua set
-- Returns {s and ns: how far it is ahead of now, negative when it is past; 0 without one}
local s, ns = 0, 0
if tats and (from == 1 or from <= #tats) then
  local digits, blank, rest = string.match(tats, '^(%d+)( ?)()', from)
  if not digits or #digits > 20 or (blank == ' ') ~= (rest <= #tats) then
    return redis.error_reply('ERR redoubt: the key holds no rate limit: its value is not a decimal integer')
  end
  -- By tonumber, because the ns may begin with 0: in arithmetic on strings,
  -- some Luas take that for octal.
  s, ns = (tonumber(string.sub(digits, 1, -10)) or 0) - now_s, tonumber(string.sub(digits, -9)) - now_ns
  if ns < 0 then s, ns = s - 1, ns + 1e9 end
  from = rest
end
