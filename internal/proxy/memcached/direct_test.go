package memcached

import (
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/redoubt-go/redoubt/internal/proxy/ring"
	"github.com/redoubt-go/redoubt/internal/test/memcachedtest"
)

var long = strings.Repeat("k", 251)

// Each line is sent by a client of its own. A server and a pool answer alike.
var conversations = []string{
	"set a 0 0 3\r\nabc\r\nget a\r\ngets a",
	"set a 7 0 0\r\n\r\nget a",
	"set b 4294967295 0 4\r\n\r\n\r\n\r\nget b",
	"set \xff\xfe 1 0 1\r\nx\r\nget \xff\xfe",
	"add a 0 0 1\r\nx\r\nadd new 0 0 1\r\nx\r\nreplace a 1 0 2\r\nxy\r\nreplace none 0 0 1\r\nx",
	"append a 0 0 1\r\nz\r\nprepend a 0 0 1\r\nw\r\nget a\r\nappend none 0 0 1\r\nx\r\nprepend none 0 0 1\r\nx",
	"cas a 0 0 1 999999\r\nx\r\ncas none 0 0 1 1\r\nx\r\ncas a 0 0 1 x\r\n\r\ncas a 0 0 1 noreply\r\n",
	"set n 0 0 2\r\n10\r\nincr n 5\r\ndecr n 100\r\nincr n 18446744073709551615\r\nincr n 1\r\nincr none 1\r\nincr a 1\r\nincr n x\r\nincr n\r\nincr\r\ndecr n -1\r\nincr n 1 foo",
	"touch n 100\r\ntouch none 1\r\ntouch n\r\ntouch n x\r\ntouch",
	"gat 0 n\r\ngats 100 none\r\ngat 0 none n\r\ngat\r\ngat n\r\ngat x n\r\ngat 0\r\ngats",
	"delete n\r\ndelete n\r\ndelete\r\ndelete n 0\r\ndelete n 5\r\ndelete a b c d\r\ndelete " + long,
	"set q 0 0 1 noreply\r\nx\r\nget q\r\nadd q 0 0 1 noreply\r\ny\r\nappend q 0 0 1 noreply\r\nz\r\nget q",
	"set m 0 0 1\r\n5\r\nincr m 1 noreply\r\ndecr m 2 noreply\r\ntouch m 0 noreply\r\nget m\r\ndelete m noreply\r\nget m",
	"delete noreply\r\nset noreply 0 0 1\r\nx\r\nget noreply\r\ndelete noreply noreply\r\nget noreply",
	"incr m noreply\r\ndelete a 0 noreply\r\nget a\r\nset z 0 0 1 foo\r\nx\r\nget z",
	"get none\r\nget a b c none\r\nget  a   b  \r\n  get a\r\nget q q a q\r\ngets none none",
	"get\r\nget \r\ngets\r\nfoo\r\n\r\n\nGET a\r\nget a\nget " + long + "\r\ntouch " + long + " 1\r\nincr " + long + " 1",
	"get a " + long,
	"set a 0 0\r\nset a 0 0 -1\r\nset a 0 0 \r\nget a\tb\r\nset a b c d e f g h\r\nset",
	"set a 0 0 3\r\nabcde\r\nversion\r\nset a 0 0 3 noreply\r\nabcde\r\nget a\r\nset a 0 0 3\r\nab\r\nrsion\r\nset a 0 0 3\r\nabc\rXget a",
	"set a 0 0 3\nabc\r\nget a\nset a 0 0 3\nabc\nversion\n",
	"set big 0 0 2000000\r\n" + strings.Repeat("x", 2000000) + "\r\nget big\r\nset big 0 0 2000000 noreply\r\n" + strings.Repeat("get a\r\n\r\n", 2000000/9+1)[:2000000] + "\r\nget big",
	"set big 0 0 900000\r\n" + strings.Repeat("get a\r\n", 900000/7+1)[:900000] + "\r\nget big big a big\r\ndelete big",
	"get " + strings.Repeat("a none ", 6000),
	"flush_all\r\nget z\r\nflush_all 0\r\nflush_all noreply\r\nflush_all 0 noreply\r\nflush_all x\r\nflush_all 1 2 3",
	"verbosity\r\nverbosity 1\r\nverbosity 1 noreply\r\nverbosity noreply\r\nversion\r\nversion noreply",
	"set e 0 -1 1\r\nx\r\nget e\r\nset e 0 100 1\r\nx\r\nget e\r\nset e 0 1000 1 noreply\r\ny\r\ngat -1 e\r\nget e",
}

var unique = regexp.MustCompile(`(?m)^(VALUE \S+ \d+ \d+) \d+\r$`)

// TestDirect: what a server answers, a pool answers.
//
// Promise: A pool answers as a server does, except for the order of values from several servers and
// for the numbers of cas, which are each server's own.
func TestDirect(t *testing.T) {
	for _, n := range []int{1, 3} {
		alone, w := memcachedtest.Start(t), newEnv(t, n, nil)
		for _, text := range conversations {
			want, got := talk(t, alone.Addr(), text), talk(t, w.addr, text)
			if n > 1 { // other numbers for cas, and the order of the values
				want, got = sorted(unique.ReplaceAllString(want, "$1 n\r")), sorted(unique.ReplaceAllString(got, "$1 n\r"))
			}
			if got != want {
				t.Errorf("%d servers: to %.200q\na server answers %.2000q\n  a pool answers %.2000q", n, text, want, got)
			}
		}
	}
}

// TestCas: a pool passes the cas unique of a value on, to the client and back to the server.
func TestCas(t *testing.T) {
	w := newEnv(t, 2, nil)
	u := dial(t, w.addr)
	for _, keys := range w.keysOf(1) {
		key := keys[0]
		u.send("set %s 0 0 1\r\n1\r\ngets %s\r\n", key, key)
		u.want("STORED")
		line := u.line()
		var n uint64
		if _, err := fmt.Sscanf(line, "VALUE "+key+" 0 1 %d", &n); err != nil {
			t.Fatalf("answered %q, want a value and its cas unique", line)
		}
		u.want("1")
		u.want("END")
		u.send("cas %s 0 0 1 %d\r\n2\r\ncas %s 0 0 1 %d\r\n3\r\nget %s\r\n", key, n, key, n, key)
		u.want("STORED")
		u.want("EXISTS")
		u.want("VALUE " + key + " 0 1")
		u.want("2")
		u.want("END")
	}
}

// sorted sorts the values of each retrieval by their keys.
func sorted(s string) string {
	parts := strings.SplitAfter(s, "END\r\n")
	for i, p := range parts {
		// The first value may follow answers to other commands.
		from := strings.Index(p, "VALUE ")
		if from < 0 {
			continue
		}
		values := strings.Split(strings.TrimSuffix(p[from:], "END\r\n"), "VALUE ")
		slices.Sort(values)
		parts[i] = p[:from] + strings.Join(values, "VALUE ") + "END\r\n"
	}
	return strings.Join(parts, "")
}

// TestRefusals: what a pool answers itself, and differs from a server in.
//
// Promise: No client can read the answers of others or end the shared connection.
func TestRefusals(t *testing.T) {
	w := newEnv(t, 2, func(o *Options) { o.MaxLine, o.MaxValue = 4096, 1000 })
	for text, want := range map[string]string{
		"set " + long + " 0 0 7\r\nget abc\r\nget a":                            errFormat + replyEnd, // a server takes the value for a command
		"set a x 0 7\r\nget abc\r\nget a":                                       errFormat + replyEnd,
		"set a 0 x 7\r\nget abc\r\nget a":                                       errFormat + replyEnd,
		"set a 4294967296 0 7\r\nget abc\r\nget a":                              errFormat + replyEnd,
		"cas a 0 0 7 x\r\nget abc\r\nget a":                                     errFormat + replyEnd,
		"cas a 0 0 7\r\nget abc\r\nget a":                                       errCommand + replyEnd,
		"set a 0 0 99999999999999999999\r\nget a":                               errFormat + replyEnd,
		"set a\x00b 0 0 7\r\nget a":                                             errFormat + replyEnd,
		"get a\rb\r\nget a\x00\r\nget a":                                        errFormat + errFormat + replyEnd,
		"set a 0 0 1001\r\n" + strings.Repeat("get a\r\n", 143) + "\r\nget a":   errTooLarge + replyEnd,
		"gat 0 " + strings.Repeat("a b ", 700):                                  replyEnd,
		"mg a v\r\nms a 7\r\nget abc\r\nmn\r\nwatch\r\nshutdown\r\nlru_crawler": strings.Repeat(errCommand, 6),
		"stats items\r\nstats cachedump 1 2":                                    errStats + errStats,
		"get a b c\r\ndelete noreply noreply noreply noreply\r\nget a":          replyEnd + replyEnd,
		"stats reset": "RESET\r\n",
	} {
		if got := talk(t, w.addr, text); got != want {
			t.Errorf("to %.100q\nanswered %.500q\n    want %.500q", text, got, want)
		}
	}
}

// TestHangUp: what memcached closes the connection on, a pool does, and carries out nothing
// that comes behind it; what came before is answered.
//
// Promise: The pool closes a client on quit, and where memcached closes it, and runs nothing behind
// that.
func TestHangUp(t *testing.T) {
	w := newEnv(t, 2, func(o *Options) { o.MaxLine = 4096 })
	alone := memcachedtest.Start(t)
	blanks := strings.Repeat(" ", 20_000)
	for _, c := range []struct{ text, answer string }{
		{text: "POST / HTTP/1.1\r\nHost: a\r\n\r\nset evil 0 0 1\r\nx\r\n"},
		{text: "GET /set HTTP/1.0 \nset evil 0 0 1\r\nx\r\n"},
		{text: "get a\r\nPUT /evil HTTP/1.1\r\nset evil 0 0 1\r\nx\r\n", answer: replyEnd},
		{text: "version" + blanks + "\r\nset evil 0 0 1\r\nx\r\n", answer: errLongLine},
		{text: "stats" + blanks + "\r\nset evil 0 0 1\r\nx\r\n", answer: errLongLine},
		{text: blanks + "set evil 0 0 1\r\nx\r\n", answer: errLongLine},
		{text: blanks + "get a\r\nset evil 0 0 1\r\nx\r\n", answer: errLongLine},
		{text: "gat" + blanks + "0 a\r\nset evil 0 0 1\r\nx\r\n", answer: errLongLine}, // beyond MaxLine
		{text: strings.Repeat("x", 20_000) + "\r\nset evil 0 0 1\r\nx\r\n", answer: errLongLine},
		{text: "incr a " + strings.Repeat("1", 20_000) + "\r\nset evil 0 0 1\r\nx\r\n", answer: errLongLine},
	} {
		for _, addr := range []string{alone.Addr(), w.addr} {
			u := dial(t, addr)
			go func() { _, _ = u.conn.Write([]byte(c.text)) }()
			// Unread bytes may make the close of the connection drop the answer.
			got, err := io.ReadAll(u.r)
			if reset := err != nil; string(got) != c.answer && (!reset || len(got) > 0) && (addr == w.addr || c.answer == replyEnd) {
				t.Errorf("to %.50q came %q and %v, want %q", c.text, got, err, c.answer)
			}
			if got := dial(t, addr).ask("get evil"); got != "END" {
				t.Errorf("behind %.50q a command was carried out: %q", c.text, got)
			}
		}
	}
}

// TestLinesAreMadeAnew: however odd a line is that memcached takes, the back end is sent
// one that it can't take for anything else.
//
// Promise: No client can read the answers of others or end the shared connection.
func TestLinesAreMadeAnew(t *testing.T) {
	f := newFake(t)
	w := &env{}
	w.open(t, Options{Name: "test", Servers: []Server{{Server: ring.Server{Name: "fake", Weight: 1}, Addr: f.addr}}})
	u := dial(t, w.addr)
	pad := strings.Repeat(" ", 1500)
	for line, want := range map[string]string{
		pad + "set  a  +0 -0  03  \r\nabc\r\n":              "set a 0 0 3\r\nabc\r\n",
		pad + "cas a 1 2 1 007 noreply\r\nx\r\n":            "cas a 1 2 1 7\r\nx\r\n",
		"get" + pad + "a\n":                                 "get a\r\n",
		"gats" + pad + "000  a " + pad[:400] + " b \r\n":    "gats 0 a b\r\n",
		pad + "delete" + pad[:300] + "a" + pad[:200] + "\n": "delete a\r\n",
		" incr  a  1  noreply  noreply \r\n":                "incr a 1\r\n",
		"version " + strings.Repeat("x", 2000) + "\r\n":     "version\r\n",
		"stats" + pad + "\r\n":                              "stats\r\n",
		"stats" + pad + "reset\r\n":                         "stats reset\r\n",
		"flush_all" + pad + "0\r\n":                         "flush_all 0\r\n",
		"verbosity" + pad + "1 noreply\r\n":                 "verbosity 1\r\n",
	} {
		u.send("%s", line)
		f.want(want)
		f.send("SERVER_ERROR some\r\n")
		if !strings.Contains(line, "noreply") {
			u.want("SERVER_ERROR some")
		}
	}
}

// TestBinary: a client of the binary protocol is told that it is unknown.
func TestBinary(t *testing.T) {
	w := newEnv(t, 1, nil)
	u := dial(t, w.addr)
	u.send("\x80\x0b\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00abcd\x00\x00\x00\x00\x00\x00\x00\x00")
	got := make([]byte, 24)
	if _, err := u.r.Read(got); err != nil || string(got) != "\x81\x0b\x00\x00\x00\x00\x00\x81\x00\x00\x00\x00abcd\x00\x00\x00\x00\x00\x00\x00\x00" {
		t.Fatalf("%q, %v", got, err)
	}
	u.wantEnd()
}
