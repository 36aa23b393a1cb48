package attack

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc64"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/redoubt-go/redoubt/internal/resp"
)

// headers are beginnings of commands that announce more than comes.
func headers(rng *rand.Rand) [][]byte {
	many := []byte("*1048576\r\n" + strings.Repeat("$1\r\na\r\n", 20000))
	text := []string{
		"*1048576\r\n", "*1048577\r\n", "*2147483647\r\n", "*9223372036854775807\r\n", "*-1\r\n", "*-9223372036854775808\r\n", "*00000000001\r\n",
		"*1\r\n$536870912\r\n", "*1\r\n$536870913\r\n", "*1\r\n$9223372036854775807\r\n", "*1\r\n$-1\r\n", "*2\r\n$3\r\nSET\r\n$536870000\r\nx",
		"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$536870911\r\n" + strings.Repeat("x", 70000), "*1\r\n*1\r\n*1\r\n", "*1" + strings.Repeat("0", 70000),
		"$5\r\nhello\r\n", "*1\r\n$3\r\nGETxx", "PING" + strings.Repeat(" ", 70000), strings.Repeat("x", 1<<20), "SET k \"" + strings.Repeat("\\x00", 17000),
		"\x16\x03\x01\x02\x00\x01\x00\x01\xfc", "POST / HTTP/1.1\r\nHost: x\r\n\r\n", "Host: x\r\n", "*1\r\n$4\r\nPOST\r\n", "*1\r\n$5\r\nHost:\r\n", "\r\n\r\n\n\n", "'\r\n",
	}
	all := [][]byte{many}
	for _, t := range text {
		all = append(all, []byte(t))
	}
	rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all
}

// announces opens many connections that announce much and send little.
func announces(ctx context.Context, rng *rand.Rand, on *round) {
	const each = 8
	var open []*wire
	defer func() {
		for _, w := range open {
			_ = w.Close()
		}
	}()
	for _, h := range headers(rng) {
		for range each {
			w := on.dial()
			if w == nil || ctx.Err() != nil {
				return
			}
			open = append(open, w)
			_ = w.raw(h) // It may be refused before its end.
		}
	}
	pause(ctx, 100*time.Millisecond)
}

// valid are commands that mutations begin with.
var valid = [][]string{
	{"GET", "k1"}, {"SET", "k1", "v", "EX", "10"}, {"MGET", "k1", "k2", "k3"}, {"MSET", "k1", "1", "k2", "2"}, {"DEL", "k1", "k2"}, {"INCR", "k1"},
	{"LPUSH", "k2", "a"}, {"BLPOP", "k2", "0.01"}, {"ZADD", "k4", "1", "a"}, {"ZRANGE", "k4", "0", "-1", "WITHSCORES"}, {"HSET", "k5", "a", "b"}, {"HGETALL", "k5"},
	{"EVAL", "return redis.call('GET',KEYS[1])", "1", "k1"}, {"EVALSHA", "e0e1f9fabfc9d4800c877a703b823ac0578ff831", "1", "k1"}, {"SCRIPT", "EXISTS", "x"},
	{"MULTI"}, {"EXEC"}, {"DISCARD"}, {"WATCH", "k1"}, {"UNWATCH"}, {"SUBSCRIBE", "c"}, {"PSUBSCRIBE", "c*"}, {"UNSUBSCRIBE"}, {"PUBLISH", "c", "x"}, {"PING"}, {"ECHO", "x"},
	{"HELLO", "3"}, {"HELLO", "2"}, {"HELLO", "3", "AUTH", "x", "y"}, {"AUTH", "x", "y"}, {"SELECT", "1"}, {"SELECT", "0"}, {"RESET"}, {"QUIT"}, {"MONITOR"}, {"COMMAND", "INFO", "get"},
	{"CLIENT", "SETNAME", "x"}, {"CLIENT", "REPLY", "OFF"}, {"CLIENT", "REPLY", "SKIP"}, {"CLIENT", "REPLY", "ON"}, {"CLIENT", "TRACKING", "ON"}, {"CLIENT", "CACHING", "YES"}, {"CLIENT", "NO-EVICT", "ON"}, {"CLIENT", "INFO"}, {"CLIENT", "ID"}, {"CLIENT", "LIST"},
	{"ASKING"}, {"READONLY"}, {"SYNC"}, {"PSYNC", "?", "-1"}, {"REPLCONF", "ACK", "1"}, {"POST", "x"}, {"Host:", "x"}, {"DUMP", "k1"}, {"RESTORE", "k1", "0", "\x00\x01a\x0a\x00", "REPLACE"}, {"OBJECT", "ENCODING", "k1"}, {"INFO"},
	{"LOCK.ACQUIRE", "l", "1000"}, {"LOCK.RELEASE", "l", "x"}, {"SEM.ACQUIRE", "s", "2", "1000"}, {"QUEUE.PUT", "q", "x"}, {"QUEUE.TAKE", "q", "1", "1000"}, {"LIMIT.TAKE", "r", "5", "1", "1000", "1"}, {"CL.THROTTLE", "r", "5", "1", "1"}, {"STOCK.SET", "i", "5"}, {"BF.ADD", "b", "x"}, {"FENCE.DO", "f", "1", "SET", "k1", "x"}, {"TTLHASH.SET", "h", "1000", "a", "b"},
}

// marks are the bytes by which RESP tells what follows.
const marks = "\r\n*$:+-_,(%~>\x00"

// mutate draws a few commands and damages their bytes.
func mutate(rng *rand.Rand) []byte {
	var b []byte
	for range 1 + rng.IntN(8) {
		args := slices.Clone(valid[rng.IntN(len(valid))])
		if rng.IntN(8) == 0 {
			args[rng.IntN(len(args))] = numbers[rng.IntN(len(numbers))]
		}
		b = resp.AppendCommand(b, args...)
	}
	for range rng.IntN(4) {
		i := rng.IntN(len(b))
		switch rng.IntN(6) {
		case 0:
			b[i] ^= 1 << rng.IntN(8)
		case 1:
			b = slices.Delete(b, i, min(len(b), i+1+rng.IntN(4)))
		case 2:
			b = slices.Insert(b, i, []byte(numbers[rng.IntN(len(numbers))])...)
		case 3:
			b = append(b, b[i:]...)
		case 4:
			b = b[:i]
		default:
			b = slices.Insert(b, i, marks[rng.IntN(len(marks))])
		}
		if len(b) == 0 {
			b = []byte{'*'}
		}
	}
	return b
}

// garbles sends random bytes and damaged commands. Bytes of one
// connection, and its state, must not reach another.
func garbles(ctx context.Context, rng *rand.Rand, on *round) {
	each(rng, 8, func(_ int, rng *rand.Rand) {
		for range 25 {
			w := on.dial()
			if w == nil || ctx.Err() != nil {
				return
			}
			for range 1 + rng.IntN(4) {
				b := mutate(rng)
				if rng.IntN(5) == 0 {
					b = make([]byte, 1+rng.IntN(200))
					for i := range b {
						b[i] = byte(rng.Uint32())
					}
				}
				if w.raw(b) != nil {
					break
				}
			}
			if rng.IntN(2) == 0 { // The others go with their replies unread.
				w.discard(time.Duration(1+rng.IntN(10)) * time.Millisecond)
			}
			_ = w.Close()
		}
	})
}

// lzf is n bytes of zeros, compressed as RDB's strings are: one byte, and copies of
// 264 bytes before.
func lzf(n int) (packed []byte, unpacked int) {
	packed, unpacked = []byte{0, 0}, 1
	for unpacked < n {
		packed = append(packed, 0xe0, 0xff, 0)
		unpacked += 264
	}
	return packed, unpacked
}

// jones is the polynomial of the checksum of DUMP, reflected.
var jones = crc64.MakeTable(0x95ac9329ac4bc9b5)

// sign appends the footer of DUMP: the version of the format, and a checksum that
// is not inverted as hash/crc64's is.
func sign(body []byte) []byte {
	body = append(body, 10, 0)
	return binary.LittleEndian.AppendUint64(body, ^crc64.Update(^uint64(0), jones, body))
}

// bomb is a payload of RESTORE that unpacks to more than it is.
func bomb(rng *rand.Rand) []byte {
	long := func(n int) []byte { return []byte{0x80, byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)} }
	str := func(n int) []byte {
		packed, unpacked := lzf(n)
		return slices.Concat([]byte{0xc3}, long(len(packed)), long(unpacked), packed)
	}
	var body []byte
	switch rng.IntN(6) {
	case 0: // a string
		body = append([]byte{0}, str(48<<20)...)
	case 1: // a list of strings
		body = append([]byte{1}, long(40)...)
		for range 40 {
			body = append(body, str(1<<20)...)
		}
	case 2: // a set that announces more than it has
		body = append([]byte{2}, long(2147483647)...)
		body = append(body, bytes.Repeat([]byte{1, 'a'}, 1000)...)
	case 3: // a hash in a listpack that is one compressed string
		body = append([]byte{16}, str(200<<20)...)
	case 4: // a sorted set of many small members
		body = append([]byte{5}, long(200000)...)
		for i := range 200000 {
			body = fmt.Appendf(append(body, 6), "%06d\x00\x00\x00\x00\x00\x00\x00\x00", i)
		}
	default: // quicklist nodes, each of them compressed
		body = append([]byte{18}, long(30)...)
		for range 30 {
			body = append(append(body, 2), str(2<<20)...)
		}
	}
	return sign(body)
}

// restores sends payloads that unpack to much, several at once.
func restores(ctx context.Context, rng *rand.Rand, on *round) {
	each(rng, 3, func(i int, rng *rand.Rand) {
		c := on.caller()
		defer c.close()
		for range 2 {
			if ctx.Err() != nil {
				return
			}
			key := fmt.Sprintf("bomb:%d", i)
			_, _ = c.do(patience, "RESTORE", key, "0", string(bomb(rng)), "REPLACE") // Taken or refused: what counts is the memory.
			_, _ = c.do(patience, "UNLINK", key)
		}
	})
}
