package engine

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/redoubt-go/redoubt/internal/resp"
	"github.com/redoubt-go/redoubt/internal/test/randtest"
)

// extremes are the numbers at which something overflows: a conversion, a sum, a product
// with 8, 10, 1000 or a width, or an allocation. They are the powers of two of every width,
// and their neighbours.
var extremes = func() (out []string) {
	for _, bits := range []uint{7, 8, 15, 16, 28, 29, 31, 32, 33, 46, 52, 53, 54, 59, 60, 61, 62, 63, 64} {
		for _, off := range []int64{-1, 0, 1} {
			text := fmt.Sprint(uint64(1)<<(bits-1) - 1 + uint64(1)<<(bits-1) + 1 + uint64(off)) //nolint:gosec // it wraps
			if bits == 64 {
				text = [...]string{"18446744073709551615", "18446744073709551616", "18446744073709551617"}[off+1]
			}
			out = append(out, text, "-"+text)
		}
	}
	for _, n := range []string{"922337203685477580", "922337203685477581", "9223372036854775", "9223372036854776", "1844674407370955162", "9223372034709000000", "99999999999999999999999"} {
		out = append(out, n, "-"+n)
	}
	return append(out, "0", "-0", "+1", "01", " 1", "1 ", "", "1.0", "1e18", "0x10")
}()

// extremeFloats are the same for floats.
var extremeFloats = []string{
	"1e308", "-1e308", "1.7976931348623157e308", "1.8e308", "5e-324", "2e-324", "1e-400", "1e400", "1e4932", "1.2e4932", "1e-4951", "1e5000",
	"0x1p1023", "0x1p16383", "0x1p16384", "0x1p2000000000", "0x1p-2000000000", "9007199254740993", "9223372036854775807", "9223372036854775808", "1e18", "1e19", "-1e19", "inf", "-inf", "nan", "0", "-0",
	"9223372036854775", "9223372036854776", "92233720368547", "0.0001", "1e-9",
}

// numbered are the commands that take numbers, with N for one of them. The commands of one
// line run one after the other, and only the last has the number.
var numbered = []string{
	"SRANDMEMBER {t}set N", "SRANDMEMBER {t}ints N", "SRANDMEMBER {t}none N", "HRANDFIELD {t}hash N", "HRANDFIELD {t}hash N WITHVALUES", "HRANDFIELD {t}none N", "ZRANDMEMBER {t}zset N", "ZRANDMEMBER {t}zset N WITHSCORES",
	"SPOP {t}set N", "SPOP {t}none N", "LPOP {t}list N", "RPOP {t}list N", "LPOP {t}none N", "ZPOPMIN {t}zset N", "ZPOPMAX {t}zset N", "LMPOP N {t}list {t}set LEFT", "LMPOP 1 {t}list LEFT COUNT N", "ZMPOP N {t}zset MIN", "ZMPOP 1 {t}zset MAX COUNT N",
	"BLMPOP 0.001 N {t}list LEFT", "BLMPOP 0.001 1 {t}list LEFT COUNT N", "BZMPOP 0.001 N {t}zset MIN", "BZMPOP 0.001 1 {t}zset MIN COUNT N",
	"SCAN 0 COUNT N MATCH none", "HSCAN {t}hash 0 COUNT N", "SSCAN {t}ints 0 COUNT N", "ZSCAN {t}zset 0 COUNT N",
	"LPOS {t}list a RANK N", "LPOS {t}list a RANK N COUNT 0", "LPOS {t}list a COUNT N", "LPOS {t}list a MAXLEN N", "LPOS {t}list a RANK -1 MAXLEN N", "LCS {t}str {t}int IDX MINMATCHLEN N",
	"SORT {t}list ALPHA LIMIT N 2", "SORT {t}list ALPHA LIMIT 1 N", "SORT {t}list BY nosort LIMIT N 2", "SORT {t}list BY nosort LIMIT 1 N", "SORT {t}zset BY nosort LIMIT N 2", "SORT {t}zset BY nosort LIMIT 1 N", "SORT {t}zset BY nosort DESC LIMIT N 2",
	"ZRANGE {t}zset -inf +inf BYSCORE LIMIT N 2", "ZRANGE {t}zset (1 +inf BYSCORE LIMIT N 2", "ZRANGE {t}zset -inf +inf BYSCORE LIMIT 1 N", "ZRANGE {t}zset +inf -inf BYSCORE REV LIMIT N 2", "ZRANGE {t}zero - + BYLEX LIMIT N 1", "ZRANGE {t}zero (a + BYLEX LIMIT N 1", "ZRANGEBYSCORE {t}zset 2 3 LIMIT N -1", "ZREVRANGEBYSCORE {t}zset 2 1 LIMIT N -1", "ZRANGEBYLEX {t}zero - + LIMIT 0 N",
	"ZRANGE {t}zset N -1", "ZRANGE {t}zset 0 N", "ZRANGE {t}zset 0 N REV", "ZREVRANGE {t}zset N -1", "ZRANGESTORE {t}new {t}zset N -1", "ZREMRANGEBYRANK {t}zset N -1", "ZREMRANGEBYRANK {t}zset 1 N",
	"ZINTERCARD N {t}zset {t}zset", "ZINTERCARD 1 {t}zset LIMIT N", "SINTERCARD N {t}set {t}set", "SINTERCARD 1 {t}set LIMIT N", "ZUNION N {t}zset {t}zset", "ZUNIONSTORE {t}new N {t}zset", "ZINTERSTORE {t}new N {t}zset", "ZDIFFSTORE {t}new N {t}zset", "ZDIFF N {t}zset",
	"GEOSEARCH {t}geo FROMLONLAT 15 37 BYRADIUS 400 km ASC COUNT N", "GEOSEARCH {t}geo FROMLONLAT 15 37 BYRADIUS 400 km COUNT N ANY", "GEORADIUS {t}geo 15 37 400 km ASC COUNT N",
	"SETRANGE {t}str N x", "SETRANGE {t}str N ''", "SETRANGE {t}new N x", "GETRANGE {t}str N -1", "GETRANGE {t}str 0 N", "SUBSTR {t}str N N", "SETBIT {t}bits N 1", "SETBIT {t}bits 3 N", "GETBIT {t}bits N",
	"BITFIELD {t}bits GET u8 N", "BITFIELD {t}bits GET u8 #N", "BITFIELD {t}bits GET u63 #N", "BITFIELD {t}bits GET uN 0", "BITFIELD {t}bits GET iN 0", "BITFIELD {t}bits SET u8 #N 1", "BITFIELD {t}bits SET i64 0 N", "BITFIELD {t}bits SET u63 0 N", "BITFIELD {t}bits SET i8 0 N", "BITFIELD {t}bits SET u8 0 N",
	"BITFIELD {t}bits OVERFLOW SAT INCRBY i64 0 N", "BITFIELD {t}bits OVERFLOW SAT INCRBY u63 0 N", "BITFIELD {t}bits OVERFLOW FAIL INCRBY i64 0 N", "BITFIELD {t}bits OVERFLOW SAT INCRBY i8 0 N", "BITFIELD {t}bits OVERFLOW FAIL INCRBY u8 0 N", "BITFIELD {t}bits INCRBY i63 0 N", "BITFIELD {t}bits INCRBY u8 0 N",
	"BITFIELD {t}bits SET i64 0 9223372036854775807 OVERFLOW SAT INCRBY i64 0 N", "BITFIELD {t}bits SET i64 0 -9223372036854775808 OVERFLOW FAIL INCRBY i64 0 N", "BITFIELD_RO {t}bits GET u8 N", "BITFIELD_RO {t}bits GET u8 #N",
	"BITPOS {t}bits 1 N", "BITPOS {t}bits 0 N", "BITPOS {t}bits 1 0 N", "BITPOS {t}bits 0 0 N BIT", "BITPOS {t}bits 1 N -1 BIT", "BITPOS {t}bits N", "BITCOUNT {t}bits N -1", "BITCOUNT {t}bits 0 N", "BITCOUNT {t}bits 0 N BIT", "BITCOUNT {t}bits N N BIT",
	"LRANGE {t}list N -1", "LRANGE {t}list 0 N", "LTRIM {t}list N -1", "LTRIM {t}list 0 N", "LINDEX {t}list N", "LSET {t}list N x", "LREM {t}list N a",
	"EXPIRE {t}str N", "PEXPIRE {t}str N", "EXPIREAT {t}str N", "PEXPIREAT {t}str N", "PEXPIREAT {t}str N | PEXPIRETIME {t}str", "PEXPIREAT {t}str N | EXPIRETIME {t}str", "EXPIREAT {t}str N | EXPIRETIME {t}str", "EXPIRE {t}str N GT", "EXPIRE {t}none N", "SET {t}new x EX N", "SET {t}new x PX N", "SET {t}new x EXAT N", "SET {t}new x PXAT N", "SETEX {t}new N x", "PSETEX {t}new N x",
	"GETEX {t}str EX N", "GETEX {t}str PX N", "GETEX {t}str EXAT N", "GETEX {t}str PXAT N", "GETEX {t}none EX N",
	"BLPOP {t}none N", "WAIT 0 N", "WAIT N 1", "INCRBY {t}int N", "DECRBY {t}int N", "INCRBY {t}new N", "DECRBY {t}new N", "SET {t}int N | INCR {t}int", "SET {t}int N | DECR {t}int", "SET {t}int N | INCRBY {t}int N", "SET {t}int N | DECRBY {t}int N",
	"HINCRBY {t}hash a N", "HINCRBY {t}new a N", "HSET {t}hash a N | HINCRBY {t}hash a N", "SADD {t}ints N", "SADD {t}ints N | SISMEMBER {t}ints N", "ZADD {t}zset N x | ZSCORE {t}zset x", "ZINCRBY {t}zset N a", "ZRANGE {t}zset N +inf BYSCORE", "ZCOUNT {t}zset N (N",
	"SELECT N", "SWAPDB 0 N", "SWAPDB N 0", "MOVE {t}str N", "COPY {t}str {t}new DB N", "CLIENT KILL ID N", "CLIENT UNBLOCK N", "CLIENT LIST ID N", "CLIENT TRACKING ON REDIRECT N", "HELLO N", "OBJECT ENCODING {t}int", "SET {t}int N | OBJECT ENCODING {t}int",
	"RESTORE {t}new N PAYLOAD", "RESTORE {t}new N PAYLOAD ABSTTL", "RESTORE {t}new 0 PAYLOAD IDLETIME N", "RESTORE {t}new 0 PAYLOAD FREQ N", "EVAL return{KEYS,ARGV} N a b", "EVAL_RO return{KEYS,ARGV} N a b", "EVALSHA 0000000000000000000000000000000000000000 N a",
	"EVAL return{tostring(N)} 0", "EVAL return(N) 0", "CONFIG SET hash-max-listpack-entries N", "CONFIG SET maxmemory-samples N", "CONFIG SET lfu-log-factor N", "CONFIG SET active-expire-effort N", "EXPIRE {t}str 9223372036854 | EXPIRE {t}str N LT",
}

// floated are the same for floats.
var floated = []string{
	"INCRBYFLOAT {t}int N", "INCRBYFLOAT {t}new N", "SET {t}int N | INCRBYFLOAT {t}int N", "SET {t}int N | INCRBYFLOAT {t}int 1", "HINCRBYFLOAT {t}hash a N", "HSET {t}hash a N | HINCRBYFLOAT {t}hash a N", "HINCRBYFLOAT {t}new a N",
	"ZADD {t}zset N x | ZSCORE {t}zset x", "ZINCRBY {t}zset N a", "ZADD {t}zset N x | ZINCRBY {t}zset N x", "ZADD {t}zset INCR N a", "ZRANGE {t}zset N +inf BYSCORE", "ZRANGE {t}zset -inf (N BYSCORE", "ZCOUNT {t}zset N N", "ZREMRANGEBYSCORE {t}zset -inf N",
	"ZUNION 1 {t}zset WEIGHTS N WITHSCORES", "ZUNIONSTORE {t}new 2 {t}zset {t}zset WEIGHTS N N | ZRANGE {t}new 0 -1 WITHSCORES", "ZADD {t}zset N x | ZUNION 1 {t}zset WEIGHTS N WITHSCORES",
	"GEOADD {t}geo N 10 x", "GEOADD {t}geo 10 N x", "GEOSEARCH {t}geo FROMLONLAT 15 37 BYRADIUS N km ASC", "GEOSEARCH {t}geo FROMLONLAT 15 37 BYBOX N 100 km ASC", "GEOSEARCH {t}geo FROMLONLAT 15 37 BYBOX N N km ASC", "GEOSEARCH {t}geo FROMLONLAT N 0 BYRADIUS 1 km ASC", "GEORADIUS {t}geo 15 37 N km ASC",
	"BLPOP {t}list N", "BZPOPMIN {t}zset N", "BLMOVE {t}list {t}new LEFT LEFT N", "BRPOPLPUSH {t}list {t}new N", "EVAL return{tostring(N)} 0", "SORT {t}nums ALPHA LIMIT N 1", "RPUSH {t}nums N | SORT {t}nums",
}

// alone reports that a command runs on the engine only: Redis would wait, or its reply is a
// matter of chance or known to be wrong. never reports that it runs on neither.
func alone(line, number string) (yes, never bool) {
	if strings.HasPrefix(line, "BLPOP {t}none") { // it waits
		f, ok := parseFloat([]byte(number))
		return ok && f >= 0 && f <= math.MaxInt64/1000, false
	}
	n, ok := parseInt([]byte(number))
	if !ok {
		return false, false
	}
	switch name, rest, _ := strings.Cut(line, " "); {
	case slices.Contains([]string{"SRANDMEMBER", "HRANDFIELD", "ZRANDMEMBER"}, name) && !strings.Contains(rest, "none"): // Redis makes a reply of -n, too
		return n != 0, false
	case name == "SPOP":
		return n > 0 && n < 3, false
	case strings.HasSuffix(name, "SCAN"): // Redis' 10 * COUNT wraps
		return n > math.MaxInt64/10, false
	case strings.HasPrefix(name, "BITFIELD") && strings.Contains(rest, "#N"): // and so does n * width
		return n > math.MaxInt64/64 || n < 0, n > 1<<20 && n < 1<<33 && strings.Contains(rest, "SET")
	case (name == "SETRANGE" || name == "SETBIT") && !strings.HasSuffix(rest, " 3 N"): // strings of up to 512 MB
		return false, n > 1<<20 && n < 1<<33
	case name == "RESTORE": // Redis takes one that leads to a time before 1970
		return n > math.MaxInt64-1e13, false
	case name == "WAIT": // it waits
		return n >= 0 && n < math.MaxInt64-1e13, false
	}
	return false, false
}

// TestExtremeNumbers runs every command that takes a number with all of the numbers above.
// It wants each command to end soon, no panic and no lock held. For some of the numbers,
// which are chosen at random, it wants the replies of Redis.
func TestExtremeNumbers(t *testing.T) {
	for name, c := range map[string]struct{ lines, numbers []string }{"integers": {numbered, extremes}, "floats": {floated, extremeFloats}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e, p := open(t, Options{}), newPair(t, resp.RESP2)
			s := e.Session()
			r, steps := randtest.Rand(t), randtest.Watch(t)
			refill(s, nil)
			payload := []byte(run(s, "DUMP {t}str"))
			payload = payload[bytes.IndexByte(payload, '\n')+1 : len(payload)-2]
			refill(p.s, p.o)
			for _, line := range c.lines {
				for i, at := range r.Perm(len(c.numbers)) {
					number := c.numbers[at]
					engineOnly, never := alone(line, number)
					if never {
						continue
					}
					compared, changed := !engineOnly && i < thorough(len(c.numbers), 6), false
					for part := range strings.SplitSeq(line, " | ") {
						args := numberedArgs(part, number, payload)
						if compared {
							p.do(args)
							changed = changed || p.replied[0] != '-'
							continue
						}
						out := tryStep(steps, s, args)
						changed = changed || len(out) == 0 || out[0] != '-'
					}
					switch {
					case changed && compared:
						refill(p.s, p.o)
					case changed:
						refill(s, nil)
					}
				}
			}
			if n := e.stats.panics.Load() + p.s.e.stats.panics.Load(); n != 0 {
				t.Errorf("%d panics", n)
			}
			unlocked(t, e, "all")
		})
	}
}

// TestRefusedNumbers: what would make a string beyond 512 MiB, or hold a shard for more than
// a fraction of a second, is refused, and leaves nothing. No rounding wraps.
func TestRefusedNumbers(t *testing.T) {
	e := open(t, Options{})
	s := e.Session()
	const offset, value = "-" + errBitOffset + "\r\n", "-ERR value is out of range\r\n"
	want(t, s, "BITFIELD new SET u8 4294967289 1", offset) // in the last byte and the one behind
	want(t, s, "BITFIELD new INCRBY i64 4294967233 1", offset)
	want(t, s, "BITFIELD new GET u8 4294967289", "*1\r\n:0\r\n")
	want(t, s, "EXISTS new", ":0\r\n")
	want(t, s, "SET far x", "+OK\r\n")
	want(t, s, "PEXPIREAT far 9223372036854775807", ":1\r\n")
	want(t, s, "EXPIRETIME far", ":9223372036854776\r\n") // as Redis rounds
	for _, line := range []string{"SADD set a", "HSET hash a 1", "ZADD zset 1 a"} {
		want(t, s, line, ":1\r\n")
	}
	for _, line := range []string{"SRANDMEMBER set", "HRANDFIELD hash", "ZRANDMEMBER zset"} {
		if got := run(s, line+" -1048577"); got != value {
			t.Errorf("%s -1048577: %.50q", line, got)
		}
		if got := run(s, line+" -1000000"); !strings.HasPrefix(got, "*1000000\r\n") {
			t.Errorf("%s -1000000: %.50q", line, got)
		}
	}
}

// numberedArgs makes the arguments of one of the commands above.
func numberedArgs(command, number string, payload []byte) (args [][]byte) {
	for w := range strings.FieldsSeq(command) {
		w = strings.ReplaceAll(strings.ReplaceAll(w, "''", ""), "PAYLOAD", string(payload))
		if i := strings.IndexByte(w, 'N'); i >= 0 && (len(w) == 1 || strings.IndexByte("#(iu", w[0]) >= 0 && i == 1 || strings.HasPrefix(w, "return")) {
			w = w[:i] + number + w[i+1:]
		}
		args = append(args, []byte(w))
	}
	return args
}

// refill makes the same keys in the engine and on Redis, unless o is nil, and nothing else.
func refill(s *Session, o *oracle) {
	var all []byte
	n := 0
	for _, line := range append([]string{"SELECT 0", "HELLO 2", "CLIENT TRACKING OFF", "FLUSHALL"}, everything...) {
		if strings.HasPrefix(line, "HSETEX") || strings.Contains(line, " PX ") {
			continue
		}
		s.Do(nil, split(line))
		all = resp.AppendCommand(all, split(line)...)
		n++
	}
	if o == nil {
		return
	}
	o.send(all)
	for range n {
		o.read()
	}
}
