package lua

import (
	"strings"
	"testing"
)

// extremes are the numbers at which a position, a width or a conversion overflows.
var extremes = strings.Fields(`0 -0 1 -1 2 -2 1.5 -0.5 127 128 255 256 -129 32767 32768 65535 65536 2147483646 2147483647 2147483648 -2147483647 -2147483648 -2147483649 4294967295 4294967296 4294967298 4294967299 -4294967296
	4503599627370495.5 9007199254740991 9007199254740992 9007199254740993 -9007199254740992 9223372036854775000 9223372036854775807 9223372036854775808 -9223372036854775808 -9223372036854775809
	18446744073709551615 18446744073709551616 1e18 1e19 -1e19 1e100 1e308 -1e308 5e-324 1/0 -1/0 0/0`)

// numbered are the functions that take a number, N.
var numbered = []string{
	"string.sub('hello', N)", "string.sub('hello', 2, N)", "string.byte('hello', N)", "string.byte('hello', 1, N)", "string.byte('hello', N, N)", "string.rep('', N)", "string.char(N)",
	"string.format('%d', N)", "string.format('%i %5d', N, N)", "string.format('%u', N)", "string.format('%x %X %o', N, N, N)", "string.format('%c', N)", "string.format('%s', N)", "string.format('%.14g %.17g', N, N)", "string.format('%.0f', N)", "string.format('%e', N)", "string.format('%q', N)",
	"string.find('hello', 'l', N)", "string.find('hello', 'l', N, true)", "string.gsub('hello', 'l', 'x', N)", "#string.rep('ab', 3):sub(N)", "string.upper(N)", "string.len(N)",
	"tostring(N)", "tonumber('7', N)", "tonumber('zz', N)", "tonumber(N)", "N .. ''", "N % 3", "N % -3", "3 % N", "N ^ 2", "2 ^ N", "math.floor(N)", "math.ceil(N)", "math.fmod(N, 3)", "math.fmod(3, N)", "math.ldexp(1, N)", "math.frexp(N)", "math.modf(N)", "math.max(N, 1)",
	"select(N, 'a', 'b')", "unpack({1, 2, 3}, N)", "unpack({1}, N, N)", "unpack({1, 2, 3}, 2, N)", "table.concat({'a', 'b'}, ',', N)", "table.concat({'a', 'b'}, ',', 1, N)", "table.concat({'a', 'b'}, ',', N, N)", "table.remove({1, 2, 3}, N)", "({1, 2, 3})[N]",
	"(function() local t = {1} t[N] = 7 return t[N], #t end)()", "(function() local n = 0 for i = N, N do n = n + 1 if n > 3 then break end end return n end)()", "(function() local n = 0 for i = 1, 3, N do n = n + 1 if n > 5 then break end end return n end)()",
	"bit.tobit(N)", "bit.bnot(N)", "bit.band(N, -1)", "bit.bor(N, 0)", "bit.bxor(N, 1)", "bit.lshift(1, N)", "bit.lshift(N, 1)", "bit.rshift(-1, N)", "bit.rshift(N, 1)", "bit.arshift(-1, N)", "bit.arshift(N, 3)", "bit.rol(N, 5)", "bit.rol(5, N)", "bit.ror(5, N)", "bit.bswap(N)", "bit.tohex(N)", "bit.tohex(1, N)",
	"struct.pack('>b', N)", "struct.pack('>h', N)", "struct.pack('>i', N)", "struct.pack('>I', N)", "struct.pack('>l', N)", "struct.pack('>L', N)", "struct.pack('>d', N)", "struct.pack('>f', N)", "struct.unpack('>b', 'abcdefgh', N)", "struct.unpack('>I', 'abcdefgh', N)",
	"cmsgpack.pack(N)", "cmsgpack.pack({N, [N == N and N or 1] = N})", "cmsgpack.unpack(cmsgpack.pack(N))", "cmsgpack.unpack_one('\\1\\2\\3', N)", "cmsgpack.unpack_limit('\\1\\2\\3', N)", "cmsgpack.unpack_limit('\\1\\2\\3', 1, N)",
	"cjson.encode(N == N and math.abs(N) < 1/0 and N or 1)", "cjson.encode({N == N and math.abs(N) < 1/0 and N or 1})", "cjson.encode(N)", "redis.setresp(N)", "redis.set_repl(N)", "redis.log(N, 'x')", "redis.breakpoint(N)", "redis.sha1hex(N)", "redis.replicate_commands(N)", "redis.call('ECHO', N)", "redis.call('SET', KEYS[1], N)", "loadstring('return ' .. tostring(N))",
}

// formed take the number as a part of a text, and only integers.
var formed = []string{
	"struct.size('iN')", "struct.size('cN')", "struct.pack('>iN', 1)", "struct.pack('!N', 1)", "struct.unpack('>cN', 'abcdefgh')", "string.format('%Nd', 1)", "string.format('%.Nd', 1)", "string.format('%.Nf', 1)", "cjson.decode('[N]')[1]", "cjson.decode('[Ne5]')[1]", "tonumber('N')", "tonumber('0xN')", "0xN", "'N' + 1", "'N' < 'x'",
}

// TestExtremeNumbers wants of every function with every number the reply of Redis, and soon.
func TestExtremeNumbers(t *testing.T) {
	o := newOracle(t)
	rt := newTestRuntime(t, Options{})
	try := func(expr string) {
		src := "local r = {pcall(function() return " + expr + " end)} local o = {} for i = 1, 9 do o[i] = tostring(r[i]) end return o"
		got := eval(t, rt, src, false, corpusKeys, corpusArgs)
		if strings.HasPrefix(expr, "string.rep") { // Redis goes round as often as the number says
			return
		}
		want, err := o.eval(src, corpusKeys, corpusArgs)
		if err != nil {
			t.Fatalf("%s: Redis: %v", expr, err)
		}
		if got != want && !unstable(got) && !unstable(want) {
			t.Errorf("%s:\n got %.300q\nwant %.300q", expr, got, want)
		}
	}
	for _, n := range extremes {
		for _, f := range numbered {
			try(strings.ReplaceAll(f, "N", "("+n+")"))
		}
		if strings.ContainsAny(n, "/.e") {
			continue
		}
		for _, f := range formed {
			try(strings.ReplaceAll(f, "N", n))
		}
	}
}
