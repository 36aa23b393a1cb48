package server_test

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/redoubt-go/redoubt/internal/resp"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
)

// bloomVectors are RedisBloom's own answers to these commands. $ is a key of the test. WA is the error
// for a wrong number of arguments.
const bloomVectors = `
BF.RESERVE $f .05 1000 -> +OK
BF.RESERVE $f .05 1000 -> -ERR item exists
BF.RESERVE $f -> WA
BF.RESERVE $f .05 -> WA
BF.RESERVE $f .05 1000 EXPANSION 2 NONSCALING x -> WA
BF.RESERVE $g .05 blah -> -ERR bad capacity
BF.RESERVE $g .05 01 -> -ERR bad capacity
BF.RESERVE $g 0 10 -> -ERR error rate must be in the range (0.000000, 1.000000)
BF.RESERVE $g 1 10 -> -ERR error rate must be in the range (0.000000, 1.000000)
BF.RESERVE $g 7.7 10 -> -ERR error rate must be in the range (0.000000, 1.000000)
BF.RESERVE $g blah 10 -> -ERR bad error rate
BF.RESERVE $g nan 10 -> -ERR bad error rate
BF.RESERVE $g 0_1 10 -> -ERR bad error rate
BF.RESERVE $g .01 0 -> -ERR capacity must be in the range [1, 1073741824]
BF.RESERVE $g .01 1073741825 -> -ERR capacity must be in the range [1, 1073741824]
BF.RESERVE $g .01 10 EXPANSION -> -ERR no expansion
BF.RESERVE $g .01 10 EXPANSION x -> -ERR bad expansion
BF.RESERVE $g .01 10 EXPANSION -1 -> -ERR expansion must be in the range [0, 32768]
BF.RESERVE $g .01 10 EXPANSION 32769 -> -ERR expansion must be in the range [0, 32768]
BF.RESERVE $g .01 10 NONSCALING EXPANSION 2 -> -Nonscaling filters cannot expand
BF.RESERVE $g .01 1073741824 -> -ERR redoubt: the filter would take more than 512 MB, or have more than 10000 links
BF.RESERVE $g .01 14000000 NONSCALING -> +OK
DEL $g -> :1
EXISTS $g -> :0
SET $s text -> +OK
SET $long xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx -> +OK
RPUSH $l x -> :1
BF.RESERVE $s .01 10 -> -WRONGTYPE Operation against a key holding the wrong kind of value
BF.ADD $s x -> -WRONGTYPE Operation against a key holding the wrong kind of value
BF.ADD $long x -> -WRONGTYPE Operation against a key holding the wrong kind of value
BF.CARD $s -> -WRONGTYPE Operation against a key holding the wrong kind of value
BF.INFO $long -> -WRONGTYPE Operation against a key holding the wrong kind of value
BF.SCANDUMP $s 0 -> -WRONGTYPE Operation against a key holding the wrong kind of value
BF.LOADCHUNK $s 1 x -> -WRONGTYPE Operation against a key holding the wrong kind of value
BF.EXISTS $s x -> :0
BF.MEXISTS $long x y -> *2 :0 :0
BF.RESERVE $l .01 10 -> -WRONGTYPE Operation against a key holding the wrong kind of value
BF.ADD $l x -> -WRONGTYPE Operation against a key holding the wrong kind of value
BF.CARD $l -> -WRONGTYPE Operation against a key holding the wrong kind of value
BF.EXISTS $l x -> :0
BF.MEXISTS $l x y -> *2 :0 :0
BF.EXISTS $none x -> :0
BF.CARD $none -> :0
BF.INFO $none -> -ERR not found
BF.SCANDUMP $none 0 -> -ERR not found
BF.SCANDUMP $none x -> -ERR not found
BF.LOADCHUNK $none 2 x -> -ERR not found
BF.ADD $a a -> :1
BF.ADD $a a -> :0
BF.MADD $a a b b -> *3 :0 :1 :0
BF.MEXISTS $a a b c -> *3 :1 :1 :0
BF.ADD $a a b -> WA
BF.MADD $a -> WA
BF.EXISTS $a -> WA
BF.MEXISTS $a -> WA
BF.CARD $a -> :2
BF.CARD $a b -> WA
BF.INSERT $i ITEMS -> WA
BF.INSERT $i CAPACITY 10 ITEMS -> WA
BF.INSERT $i NOCREATE ITEMS x -> -ERR not found
BF.INSERT $i ERROR 1 ITEMS x -> -Bad error rate
BF.INSERT $i CAPACITY 0 ITEMS x -> -Bad capacity
BF.INSERT $i EXPANSION -1 ITEMS x -> -Bad expansion
BF.INSERT $i DONTEXIST ITEMS x -> -Unknown argument received
BF.INSERT $i NONSCALING CAPACITY 3 ITEMS a b c -> *3 :1 :1 :1
BF.INSERT $i NOCREATE ITEMS a b c d d -> *4 :0 :0 :0 -ERR non scaling filter is full
BF.ADD $i d -> -ERR non scaling filter is full
BF.INFO $i expansion -> *1 $-1
BF.INFO $i bogus -> -Invalid information value
BF.INFO $i items size -> WA
BF.INFO $i ITEMS -> *1 :3
BF.ADD $d foo -> :1
BF.INFO $d -> *10 +Capacity :100 +Size :240 +Number of filters :1 +Number of items inserted :1 +Expansion rate :2
BF.INFO $d Size -> *1 :240
BF.SCANDUMP $d x -> -Second argument must be numeric
BF.SCANDUMP $d 0 x -> WA
BF.SCANDUMP $d 1000 -> *2 :0 $0
BF.SCANDUMP $d -1 -> *2 :0 $0
BF.LOADCHUNK $k 1 abc -> -ERR received bad data
BF.LOADCHUNK $k x abc -> -ERR Second argument must be numeric
BF.LOADCHUNK $k 1 -> WA
BF.LOADCHUNK $d 1 abc -> -ERR received bad data
BF.LOADCHUNK $d -5 abc -> -ERR received bad data
BF.LOADCHUNK $d 3 abc -> -ERR invalid offset - no link found
BF.LOADCHUNK $d 1000 abc -> -ERR invalid offset - no link found
BF.LOADCHUNK $d 9223372036854775807 abc -> -ERR invalid offset - no link found
BF.LOADCHUNK $d 146 abc -> -ERR invalid chunk - Too big for current filter
BF.CARD $d -> :1
BF.RESERVE EXPANSION .01 10 -> -ERR bad expansion
BF.RESERVE $e 0x0.8 4 EXPANSION 0 -> +OK
BF.INFO $e expansion -> *1 $-1
BF.INSERT $j NONSCALING EXPANSION 0 ERROR .9 CAP 7 I x -> *1 :1
BF.INFO $j capacity -> *1 :7
`

func TestBloomVectors(t *testing.T) {
	each(t, func(t *testing.T, b redistest.Backend) {
		_, addr := start(t, b.URL)
		w := dial(t, addr)
		for line := range strings.Lines(bloomVectors) {
			command, want, ok := strings.Cut(strings.TrimSpace(line), " -> ")
			if !ok {
				continue
			}
			args := strings.Fields(strings.ReplaceAll(command, "$", b.Prefix))
			if want == "WA" {
				want = "-ERR wrong number of arguments for '" + strings.ToLower(args[0]) + "' command"
			}
			if got := oneLine(w.do(args...)); got != want {
				t.Errorf("%s: %s, want %s", command, got, want)
			}
		}
	})
}

// oneLine writes a reply as the vectors do.
func oneLine(raw string) string {
	return strings.TrimSpace(strings.ReplaceAll(strings.ReplaceAll(raw, "\r\n\r\n", "\r\n"), "\r\n", " "))
}

// In RESP3 what is yes or no is a boolean, and what has names is a map.
func TestBloomRESP3(t *testing.T) {
	each(t, func(t *testing.T, b redistest.Backend) {
		_, addr := start(t, b.URL)
		w := dial(t, addr)
		_ = w.do("HELLO", "3")
		k := b.Prefix + "k"
		for _, c := range []struct{ command, want string }{
			{"BF.INSERT " + k + " NONSCALING CAPACITY 2 ITEMS a a b c", "*4 #t #f #t -ERR non scaling filter is full"},
			{"BF.ADD " + k + "2 a", "#t"},
			{"BF.MADD " + k + "2 a b", "*2 #f #t"},
			{"BF.EXISTS " + k + " a", "#t"},
			{"BF.EXISTS " + k + "none a", "#f"},
			{"BF.MEXISTS " + k + " a z", "*2 #t #f"},
			{"BF.INFO " + k + " EXPANSION", "%1 +Expansion rate _"},
			{"BF.INFO " + k + " filters", "%1 +Number of filters :1"},
			{"BF.INFO " + k + "2", "%5 +Capacity :100 +Size :240 +Number of filters :1 +Number of items inserted :2 +Expansion rate :2"},
			{"BF.CARD " + k, ":2"},
		} {
			if got := oneLine(w.do(strings.Fields(c.command)...)); got != c.want {
				t.Errorf("%s: %s, want %s", c.command, got, c.want)
			}
		}
	})
}

// BF.LOADCHUNK restores what BF.SCANDUMP returned part by part. Items may be any bytes.
func TestBloomDumpAndLoad(t *testing.T) {
	each(t, func(t *testing.T, b redistest.Backend) {
		_, addr := start(t, b.URL)
		w := dial(t, addr)
		from, to := b.Prefix+"from", b.Prefix+"to"
		// Three filters; and one of 5 MB, whose bits come in three parts.
		w.want("+OK\r\n", "BF.RESERVE "+from+" 0.001 2 EXPANSION 2000")
		for i := range 10 {
			_ = w.do("BF.ADD", from, fmt.Sprint("item\r\n\x00", i))
		}
		_ = w.do("BF.RESERVE", from+"large", "0.001", "2600000")
		_ = w.do("BF.ADD", from+"large", "x")
		for _, name := range []string{"", "large"} {
			parts := 0
			for iter := "0"; ; parts++ {
				reply, ok := w.value("BF.SCANDUMP", from+name, iter).([]any)
				if !ok || len(reply) != 2 {
					t.Fatalf("BF.SCANDUMP: %v", reply)
				}
				if iter = fmt.Sprint(reply[0]); iter == "0" {
					break
				}
				if n := len(reply[1].(string)); name == "large" && parts == 1 && n != 2<<20 {
					t.Errorf("the first part of the bits has %d bytes, want 2 MiB", n)
				}
				if got := w.do("BF.LOADCHUNK", to+name, iter, reply[1].(string)); got != "+OK\r\n" {
					t.Fatalf("part %d: %q", parts, got)
				}
			}
			if want := map[string]int{"": 3, "large": 4}[name]; parts != want {
				t.Errorf("%q: %d parts, want %d", name, parts, want)
			}
			if a, b := w.do("BF.INFO", from+name), w.do("BF.INFO", to+name); a != b {
				t.Errorf("loaded: %q, want %q", b, a)
			}
		}
		for i := range 10 {
			if got := w.do("BF.EXISTS", to, fmt.Sprint("item\r\n\x00", i)); got != ":1\r\n" {
				t.Errorf("item %d: %q", i, got)
			}
		}
		w.want(":1\r\n", "BF.EXISTS "+to+"large x")
		w.want(":0\r\n", "BF.EXISTS "+to+"large y")
	})
}

// (error rate, capacity) and how many of so many are new, as the module counts them.
func TestBloomCounts(t *testing.T) {
	each(t, func(t *testing.T, b redistest.Backend) {
		_, addr := start(t, b.URL)
		w := dial(t, addr)
		for i, c := range []struct {
			reserve     string
			items, card int
			filters     int
		}{
			{"0.01 10", 100, 99, 4},
			{"0.001 100", 4000, 3997, 6},
			{"0.01 4 EXPANSION 1", 100, -1, 23},
			{"0.01 4 EXPANSION 2", 100, -1, 5},
			{"0.01 4 EXPANSION 4", 100, -1, 4},
		} {
			key := fmt.Sprint(b.Prefix, i)
			w.want("+OK\r\n", "BF.RESERVE "+key+" "+c.reserve)
			args := []string{"BF.MADD", key}
			for j := range c.items {
				args = append(args, fmt.Sprint(j))
			}
			_ = w.do(args...)
			if got := w.value("BF.CARD", key); c.card >= 0 && got != int64(c.card) {
				t.Errorf("%s: %v are new, want %d", c.reserve, got, c.card)
			}
			if got := fmt.Sprint(w.value("BF.INFO", key, "FILTERS")); got != fmt.Sprintf("[%d]", c.filters) {
				t.Errorf("%s: %s filters, want %d", c.reserve, got, c.filters)
			}
		}
	})
}

// An error rate above 0.25 counts as that, the largest expansion is one, and what INFO
// tells is of all filters together.
func TestBloomSizes(t *testing.T) {
	each(t, func(t *testing.T, b redistest.Backend) {
		_, addr := start(t, b.URL)
		w := dial(t, addr)
		k := b.Prefix
		for _, c := range []struct{ command, want string }{
			{"BF.RESERVE " + k + "r .9 1000 NONSCALING", "+OK"},
			{"BF.INFO " + k + "r SIZE", "*1 :464"}, // 32 + 64 + 1000 * 2.885 bits, in words
			{"BF.INSERT " + k + "i NONSCALING ERROR .9 CAPACITY 1000 ITEMS x", "*1 :1"},
			{"BF.INFO " + k + "i SIZE", "*1 :464"},
			{"BF.RESERVE " + k + "x .01 10 EXPANSION 32768", "+OK"},
			{"BF.INSERT " + k + "y EXPANSION 32768 ITEMS x", "*1 :1"},
			{"BF.INFO " + k + "y EXPANSION", "*1 :32768"},
			{"BF.INSERT " + k + "z EXPANSION 0 CAPACITY 1 ITEMS a b", "*2 :1 -ERR non scaling filter is full"},
			{"BF.RESERVE " + k + "m .01 1", "+OK"},
			{"BF.MADD " + k + "m a b c", "*3 :1 :1 :1"},
			{"BF.INFO " + k + "m", "*10 +Capacity :3 +Size :176 +Number of filters :2 +Number of items inserted :3 +Expansion rate :2"},
		} {
			if got := oneLine(w.do(strings.Fields(c.command)...)); got != c.want {
				t.Errorf("%s: %s, want %s", c.command, got, c.want)
			}
		}
	})
}

func TestBloomInTransaction(t *testing.T) {
	each(t, func(t *testing.T, b redistest.Backend) {
		_, addr := start(t, b.URL)
		for _, protocol := range []string{"2", "3"} {
			w := dial(t, addr)
			_ = w.do("HELLO", protocol)
			k := b.Prefix + protocol
			yes := map[string]string{"2": ":1\r\n", "3": "#t\r\n"}[protocol]
			w.want("+OK\r\n", "MULTI")
			for _, c := range []string{"BF.ADD " + k + " a", "BF.RESERVE " + k + " x 1", "BF.EXISTS " + k + " a", "BF.CARD " + k} {
				w.want("+QUEUED\r\n", c)
			}
			w.want(array(yes, "-ERR bad error rate\r\n", yes, ":1\r\n"), "EXEC")
		}
	})
}

// A command that takes several steps outside of a transaction is one step inside, or is refused. It works
// in other databases too.
func TestBloomManyItems(t *testing.T) {
	each(t, func(t *testing.T, b redistest.Backend) {
		_, addr := start(t, b.URL)
		w := dial(t, addr)
		many := []string{"BF.MADD", b.Prefix + "k"}
		for i := range 3000 {
			many = append(many, fmt.Sprint(i))
		}
		look, few := slices.Concat([]string{"BF.MEXISTS"}, many[1:]), many[:102]
		insert := slices.Concat([]string{"BF.INSERT", many[1], "NOCREATE", "ITEMS"}, many[2:])
		part := strings.Repeat("x", 3<<20)
		w.want("+OK\r\n", "MULTI")
		for _, c := range [][]string{few, many, insert, look, {"BF.LOADCHUNK", many[1], strconv.Itoa(4 << 20), part}} {
			if got := w.do(c...); got != "+QUEUED\r\n" {
				t.Fatalf("%s: %q", c[0], got)
			}
		}
		replies, _ := w.value("EXEC").([]any)
		if len(replies) != 5 {
			t.Fatalf("EXEC: %v", replies)
		}
		for i, want := range []string{"", "ERR redoubt: so many items", "ERR redoubt: so many items", "ERR redoubt: so many items", "ERR redoubt: a part of more than 2 MiB"} {
			if fault, failed := replies[i].(resp.Error); failed != (want != "") || !strings.HasPrefix(string(fault), want) {
				t.Errorf("reply %d is %.80v, want %q", i, replies[i], want)
			}
		}
		if got := w.value("BF.CARD", many[1]); got.(int64) < 99 || got.(int64) > 100 {
			t.Errorf("%v items, want the 100 of the first command", got)
		}
		if got, _ := w.value(many...).([]any); len(got) != 3000 || got[0] != int64(0) || got[2999] != int64(1) {
			t.Errorf("%d replies", len(got))
		}
		if got, _ := w.value(look...).([]any); len(got) != 3000 || slices.Contains(got, any(int64(0))) {
			t.Errorf("%d replies, or an item is denied", len(got))
		}
		if strings.HasPrefix(w.do("SELECT", "3"), "-") {
			return // a pool, or a cluster
		}
		if got := oneLine(w.do(look[:4]...)); got != "*2 :0 :0" {
			t.Errorf("in another database: %s", got)
		}
		w.want("*2\r\n:1\r\n:0\r\n", "BF.MADD "+many[1]+" a a")
		if got := w.do(many...); !strings.HasPrefix(got, "-ERR redoubt: so many items") {
			t.Errorf("in another database: %.80q", got)
		}
	})
}

// A server that has the module runs its commands itself.
func TestBloomModuleBehind(t *testing.T) {
	_, addr := start(t, "redis://"+withModule(t))
	w := dial(t, addr)
	w.want("+the module's BF.ADD k x\r\n", "BF.ADD k x")
	w.want("+the module's BF.RESERVE k x 1\r\n", "BF.RESERVE k x 1")
	w.want("+the module's BF.CARD\r\n", "BF.CARD")
	// And tells of them itself.
	if got := w.do("COMMAND", "INFO", "BF.RESERVE"); got != "*1\r\n*2\r\n$10\r\nbf.reserve\r\n:-4\r\n" {
		t.Errorf("COMMAND INFO: %q", got)
	}
}

// withModule serves something that says it has RedisBloom.
func withModule(t *testing.T) (addr string) {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				serveModule(c)
			}()
		}
	}()
	return l.Addr().String()
}

func serveModule(c net.Conn) {
	var scan resp.CommandScanner
	buf, chunk := []byte(nil), make([]byte, 4096)
	for {
		n, err := scan.Next(buf)
		if err != nil {
			return
		}
		if n == 0 {
			got, err := c.Read(chunk)
			if err != nil {
				return
			}
			buf = append(buf, chunk[:got]...)
			continue
		}
		words := []string{}
		for _, a := range scan.Args() {
			words = append(words, string(a))
		}
		buf = buf[n:]
		reply := "+OK\r\n"
		switch line := strings.Join(words, " "); {
		case strings.HasPrefix(line, "BF."):
			reply = "+the module's " + line + "\r\n"
		case strings.HasPrefix(line, "COMMAND INFO"):
			reply = "*1\r\n*2\r\n$10\r\nbf.reserve\r\n:-4\r\n"
		case strings.HasPrefix(line, "HELLO"):
			reply = "-ERR unknown command\r\n"
		}
		if _, err := c.Write([]byte(reply)); err != nil {
			return
		}
	}
}
