package memcached

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt/internal/test/memcachedtest"
	"github.com/redoubt-go/redoubt/internal/test/randtest"
)

// few bounds the numbers of a lottery, and so its cas uniques. Its large numbers are at least
// 2147483647.
const few = 40

// A lottery makes random requests. Most of them are nearly right.
type lottery struct{ *rand.Rand }

func (r lottery) one(of ...string) string { return of[r.IntN(len(of))] }

// blanks returns what stands between two words: mostly one blank.
func (r lottery) blanks() string {
	switch r.IntN(40) {
	case 0:
		return strings.Repeat(" ", 1+r.IntN(4000))
	case 1, 2, 3:
		return strings.Repeat(" ", 1+r.IntN(4))
	}
	return " "
}

func (r lottery) number() string {
	if r.IntN(4) > 0 {
		return strconv.Itoa(r.IntN(few))
	}
	return r.one("0", "00", "-0", "-1", "+1", "007", "2147483647", "4294967295", "x", "1x", "0x1", "1.5", "--1", "18446744073709551615", "noreply", "")
}

func (r lottery) key(known string) string {
	if r.IntN(4) > 0 {
		return known
	}
	padded := known + strings.Repeat("k", 250-len(known))
	return r.one(known+"x", padded, padded+"k", known+"\tb", known+"\xff\xfe", "")
}

// request is one request about a key.
func (r lottery) request(key string) string {
	var words []string
	add := func(w ...string) { words = append(words, w...) }
	value := "\x00"
	switch r.IntN(12) {
	case 0, 1:
		add(r.one("get", "gets"))
		for range 1 + r.IntN(4) {
			add(r.key(key))
		}
		if r.IntN(20) == 0 {
			add(strings.Repeat(key+" ", 1+r.IntN(1000)))
		}
	case 2:
		add(r.one("gat", "gats"), r.number(), r.key(key), r.key(key))
	case 3, 4, 5, 6:
		name := r.one("set", "add", "replace", "append", "prepend", "cas")
		n := r.IntN(few)
		size := strconv.Itoa(n)
		if r.IntN(8) == 0 {
			size = r.number()
		}
		add(name, r.key(key), r.number(), r.number(), size)
		if name == "cas" || r.IntN(20) == 0 {
			add(r.number())
		}
		value = strings.Repeat("v", max(0, n-r.IntN(20)/19)) + "\r\n"
	case 7:
		add(r.one("incr", "decr", "touch"), r.key(key), r.number())
	case 8:
		add("delete", r.key(key))
	case 9:
		add(r.one("verbosity", "version", "version x", "foo", "GET", "SET a 0 0 1", "", "quit x", "Host: a", "stats"))
	case 10:
		add(r.one("POST / HTTP/1.1", "GET /a HTTP/1.0", "foo HTTP/", "foo HTTP/1.1 x", "get HTTP/1.1", "touch HTTP/1.1 1", "foo xHTTP/1"))
	case 11:
		add(r.one("get", "set", "version", "foo", "delete"), strings.Repeat("x", r.IntN(5000)))
	}
	if r.IntN(6) == 0 {
		add("noreply")
	}
	if r.IntN(10) == 0 { // a word more or less
		if i := r.IntN(len(words)); r.IntN(2) == 0 {
			words = append(words[:i], words[i+1:]...)
		} else {
			words = append(words, r.one("x", "1", "noreply"))
		}
	}
	var text strings.Builder
	if r.IntN(20) == 0 {
		text.WriteString(r.blanks())
	}
	for i, w := range words {
		if i > 0 {
			text.WriteString(r.blanks())
		}
		text.WriteString(w)
	}
	if r.IntN(20) == 0 {
		text.WriteString(r.blanks())
	}
	text.WriteString(r.one("\r\n", "\r\n", "\r\n", "\n"))
	if value != "\x00" {
		text.WriteString(value)
	}
	return text.String()
}

// class returns the kind of the first reply in text.
func class(text string) string {
	line, _, _ := strings.Cut(text, "\r\n")
	first, _, _ := strings.Cut(line, " ")
	switch {
	case text == "":
		return "none"
	case first == "VALUE" || first == "STAT":
		return "END"
	case strings.Trim(first, "0123456789") == "":
		return "number"
	}
	return first
}

// outcome returns the class of the reply to a request, as far as it depends on this request and
// on its key. A request that lacks its key has another word in that place. All attackers store
// values under such a word, so the reply depends on the order of their requests.
func outcome(request, key, reply string) string {
	line, _, _ := strings.Cut(request, "\n")
	words := strings.Fields(line)
	c := class(reply)
	if len(words) < 2 || strings.HasPrefix(words[1], key) {
		return c
	}
	switch c {
	case "STORED", "NOT_STORED", "EXISTS", "NOT_FOUND", "DELETED", "TOUCHED", "number":
		return "obeyed"
	case "CLIENT_ERROR":
		if strings.HasPrefix(reply, "CLIENT_ERROR cannot increment") { // a value that is no number
			return "obeyed"
		}
	}
	return c
}

// outgrow stores values until no number of a lottery can be the cas unique of a later value.
// Each server counts for itself, so a cas whose number happens to be right on one server is
// wrong on another.
func outgrow(t *testing.T, addr string) {
	t.Helper()
	u := dial(t, addr)
	for n := 0; n < few; {
		u.send("set grown 0 0 1\r\nx\r\ngets grown\r\n")
		u.want("STORED")
		line := u.line()
		if _, err := fmt.Sscanf(line, "VALUE grown 0 1 %d", &n); err != nil {
			t.Fatalf("answered %q, want a value and its cas unique", line)
		}
		u.want("x")
		u.want("END")
	}
}

// converseOnce sends text on a new connection and returns everything that comes back.
func converseOnce(steps *randtest.Steps, addr, text string) (string, error) {
	steps.Begin(func() string { return fmt.Sprintf("%.300q to %s", text, addr) })
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(within))
	_, _ = io.WriteString(conn, text)
	_ = conn.(*net.TCPConn).CloseWrite()
	got, err := io.ReadAll(conn)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return string(got), err
	}
	return string(got), nil
}

// TestHostileClients sends what is right, nearly right and wrong to a server and to a pool.
// Their replies are of the same class. Other clients of the pool never get an error or another's
// reply, because the shared connection is not lost.
//
// Promise: No client can read the answers of others or end the shared connection.
func TestHostileClients(t *testing.T) {
	seed := randtest.Seed(t)
	rounds := 1500
	if os.Getenv("MEMCACHED_FAULTS") == "full" {
		rounds = 100_000
	}
	alone, w := memcachedtest.Start(t), newEnv(t, 1, nil)
	outgrow(t, alone.Addr())
	outgrow(t, w.addr)
	var over atomic.Bool
	var reads int
	var victims sync.WaitGroup
	victim := dial(t, w.addr)
	_ = victim.conn.SetDeadline(time.Time{})
	victims.Go(func() {
		for i := 0; !over.Load() && !t.Failed(); i++ {
			if got, want := tellVictim(victim, i), fmt.Sprintf("STORED\r\nVALUE victim 0 8\r\n%08d\r\nEND\r\n", i); got != want {
				t.Errorf("a victim got %q, want %q", got, want)
			}
			reads++
		}
	})
	var attackers sync.WaitGroup
	const many = 4
	for a := range many {
		attackers.Go(func() {
			r := lottery{rand.New(rand.NewPCG(seed, uint64(a)))} //nolint:gosec // to be repeated
			steps := randtest.Watch(t)
			defer steps.End()
			for i := range rounds / many {
				if t.Failed() {
					return
				}
				key := fmt.Sprintf("a%d:%d", a, i)
				before, stored := "", ""
				if r.IntN(2) == 1 {
					before, stored = fmt.Sprintf("set %s 0 0 1\r\n5\r\n", key), "STORED\r\n"
				}
				request := r.request(key)
				rest := r.request(key) + r.request(key)
				want, err := converseOnce(steps, alone.Addr(), before+request)
				got, gerr := converseOnce(steps, w.addr, before+request)
				if err != nil || gerr != nil {
					t.Errorf("to %.300q: %v, %v", request, err, gerr)
				}
				// memcached takes more of what is long, as it happens to read it, and gives up
				// what it has not sent when it closes.
				long := len(request) > maxShort
				want, got = outcome(request, key, strings.TrimPrefix(want, stored)), outcome(request, key, strings.TrimPrefix(got, stored))
				if want != got && !long && !stricter(request, want, got) {
					t.Errorf("to %.300q a server answers %s, a pool %s", before+request, want, got)
				}
				if _, err := converseOnce(steps, w.addr, rest); err != nil {
					t.Errorf("to %.300q: %v", rest, err)
				}
			}
		})
	}
	attackers.Wait()
	over.Store(true)
	victims.Wait()
	if s := w.Stats(); s.Servers[0].Losses != 0 || s.Servers[0].Timeouts != 0 {
		t.Errorf("the connection to the server was lost: %+v", s.Servers[0])
	}
	t.Logf("%d requests, %d of the victim", rounds, reads)
}

// tellVictim is one round of a client that does nothing wrong.
func tellVictim(u *user, i int) string {
	_, err := fmt.Fprintf(u.conn, "set victim 0 0 8\r\n%08d\r\nget victim\r\n", i)
	var got bytes.Buffer
	for err == nil && !bytes.HasSuffix(got.Bytes(), []byte(replyEnd)) && got.Len() < 1000 {
		var l []byte
		l, err = u.r.ReadBytes('\n')
		got.Write(l)
	}
	if err != nil {
		return got.String() + err.Error()
	}
	return got.String()
}

// stricter reports whether docs/memcached.md lets a pool answer a request in another way than
// a server.
func stricter(request, want, got string) bool {
	line, _, _ := strings.Cut(request, "\n")
	words := strings.Fields(line)
	switch {
	case len(words) > 0 && strings.HasPrefix(words[len(words)-1], "HTTP/") && got == "none":
		return true // whatever the command
	case len(words) > 0 && words[0] == "stats":
		return true // the statistics of one server
	case want == "ERROR" && (got == "none" || got == "CLIENT_ERROR" && words[len(words)-1] == "noreply"):
		return true // to a value behind a line that was refused: the server takes it for commands
	case got == "CLIENT_ERROR" || got == "SERVER_ERROR":
		for _, w := range words { // of more than 32 bits
			if len(w) > 9 && strings.Trim(w, "0123456789") == "" {
				return true
			}
		}
	}
	return false
}
