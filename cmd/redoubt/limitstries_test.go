//go:build unix

package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt/internal/resp"
	"github.com/redoubt-go/redoubt/internal/test/slow"
)

// A peer is a client that sees every line.
type peer struct {
	t    *testing.T
	conn net.Conn
	in   *bufio.Reader
}

// peer connects.
func (w *way) peer(t *testing.T) *peer {
	t.Helper()
	conn, err := w.dial()
	if err != nil {
		t.Fatal(err)
	}
	return newPeer(t, conn)
}

func newPeer(t *testing.T, conn net.Conn) *peer {
	t.Helper()
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	return &peer{t, conn, bufio.NewReader(conn)}
}

// send sends text. The server may close the connection meanwhile.
func (p *peer) send(text string) { _, _ = io.WriteString(p.conn, text) }

// line returns the next line, or what came before the end of the connection.
func (p *peer) line() string {
	line, _ := p.in.ReadString('\n')
	return strings.TrimSuffix(line, "\r\n")
}

// reply returns the first line of a reply, and reads all of it.
func (p *peer) reply() string {
	p.t.Helper()
	first := p.line()
	if first == "" {
		p.t.Fatal("no reply")
	}
	n, _ := strconv.Atoi(first[1:])
	switch first[0] {
	case '$':
		if _, err := io.CopyN(io.Discard, p.in, int64(n)+2); err != nil {
			p.t.Fatal(err)
		}
	case '%':
		n *= 2
		fallthrough
	case '*', '>':
		for range n {
			p.reply()
		}
	}
	return first
}

// takes sends text and wants a reply that begins with want.
func (p *peer) takes(text, want string) {
	p.t.Helper()
	p.send(text)
	if got := p.reply(); !strings.HasPrefix(got, want) {
		p.t.Errorf("to %.60q… came %.200q; want %s", text, got, want)
	}
}

// refuses is takes for the last that is answered.
func (p *peer) refuses(text, want string) {
	p.t.Helper()
	p.takes(text, want)
	if rest, _ := io.ReadAll(p.in); len(rest) > 0 {
		p.t.Errorf("to %.60q… came %.200q after the error", text, rest)
	}
}

func onWire(words ...string) string { return string(resp.AppendCommand(nil, words...)) }

var ping = onWire("PING")

// served waits until a few other clients are served at once: the clients of an earlier test may end late.
func (w *way) served(t *testing.T) {
	t.Helper()
	const few = 5
	eventually(t, "other clients are served", func() bool {
		n := 0
		t.Run("round", func(t *testing.T) { // whose end closes them
			for n < few && w.serves(t) {
				n++
			}
		})
		return n == few
	})
}

// serves reports whether one more client is served.
func (w *way) serves(t *testing.T) bool {
	t.Helper()
	switch w.name {
	case "HTTP":
		return w.web(t).asks("GET", "/livez", "", "") == http.StatusOK
	case "memcached":
		p := w.peer(t)
		p.send("get other\r\n")
		return p.line() == "END"
	default:
		p := w.peer(t)
		p.send(ping)
		return p.line() == "+PONG"
	}
}

// tryMost opens connections until one is refused. Connections of earlier tests may end late.
func tryMost(t *testing.T, most int, open func(t *testing.T) (refused bool)) {
	t.Helper()
	n := 0
	eventually(t, fmt.Sprint(most, " clients are taken, and no more"), func() bool {
		ok := false
		t.Run("round", func(t *testing.T) { // whose end closes them
			for n = 0; n <= most && !open(t); n++ {
			}
			ok = n == most
		})
		return ok || n > most
	})
	if n != most {
		t.Errorf("%d clients were taken", n)
	}
}

func tryClients(t *testing.T, w *way) {
	tryMost(t, mostHere, func(t *testing.T) bool {
		t.Helper()
		p := w.peer(t)
		p.send(ping)
		got := p.line()
		if got != "+PONG" && got != "-ERR max number of clients reached" && got != "" {
			t.Errorf("%q", got)
		}
		return got != "+PONG"
	})
}

func tryBulk(t *testing.T, w *way) {
	w.peer(t).takes(onWire("SET", "k", strings.Repeat("v", bulkHere)), "+OK")
	w.peer(t).refuses(fmt.Sprintf("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$%d\r\n", bulkHere+1), "-ERR Protocol error: invalid bulk length")
	w.peer(t).takes(onWire("DEL", "k"), ":1")
}

func tryArguments(t *testing.T, w *way) {
	const most = 1 << 20
	w.peer(t).takes("*"+strconv.Itoa(most)+"\r\n$3\r\nDEL\r\n"+strings.Repeat("$1\r\na\r\n", most-1), ":0")
	w.peer(t).refuses("*"+strconv.Itoa(most+1)+"\r\n", "-ERR Protocol error: invalid multibulk length")
}

func tryInline(t *testing.T, w *way) {
	const most = 64 << 10
	text := strings.Repeat("v", most-len("PING \r"))
	w.peer(t).takes("PING "+text+"\r\n", "$"+strconv.Itoa(len(text)))
	w.peer(t).refuses("PING "+text+"v\r\n", "-ERR Protocol error: too big inline request")
}

func tryWithoutPassword(t *testing.T, w *way) {
	w = w.locked(t)
	const args, bulk = 10, 16 << 10
	w.peer(t).takes(onWire(strings.Split(strings.Repeat("GET,", args-1)+"GET", ",")...), "-NOAUTH ")
	w.peer(t).refuses(fmt.Sprintf("*%d\r\n", args+1), "-ERR Protocol error: unauthenticated multibulk length")
	w.peer(t).takes(onWire("AUTH", strings.Repeat("p", bulk)), "-WRONGPASS ")
	w.peer(t).refuses(fmt.Sprintf("*2\r\n$4\r\nAUTH\r\n$%d\r\n", bulk+1), "-ERR Protocol error: unauthenticated bulk length")
	p := w.peer(t)
	p.takes(onWire("AUTH", "s3cret"), "+OK")
	p.takes(onWire("ECHO", strings.Repeat("v", bulk+1)), "$"+strconv.Itoa(bulk+1))
}

func tryNames(t *testing.T, w *way) {
	const most = 4 << 10
	p, name := w.peer(t), strings.Repeat("n", most)
	for _, c := range [][]string{{"CLIENT", "SETNAME"}, {"CLIENT", "SETINFO", "lib-name"}, {"CLIENT", "SETINFO", "LIB-VER"}, {"HELLO", "2", "SETNAME"}} {
		want := "+OK"
		if c[0] == "HELLO" {
			want = "*"
		}
		p.takes(onWire(append(c, name)...), want)
		p.takes(onWire(append(c, name+"n")...), fmt.Sprintf("-ERR a name may have %d bytes", most))
	}
	p.takes(onWire("CLIENT", "GETNAME"), "$"+strconv.Itoa(most))
}

// mostNames are names that together, with 64 bytes for each, have exactly 64 MiB.
func mostNames() (names []string) {
	for i := range 64 {
		names = append(names, fmt.Sprintf("%02d", i)+strings.Repeat("n", oneMiB-64-2))
	}
	return names
}

func trySubscriptions(t *testing.T, w *way) {
	p := w.peer(t)
	for _, name := range mostNames() {
		p.takes(onWire("SUBSCRIBE", name), "*3")
	}
	p.takes(onWire("SUBSCRIBE", ""), "-ERR too many subscriptions")
	p.takes(onWire("UNSUBSCRIBE", mostNames()[0]), "*3")
	p.takes(onWire("SUBSCRIBE", "other"), "*3")
}

func tryWatch(t *testing.T, w *way) {
	p := w.peer(t)
	for _, name := range mostNames() {
		p.takes(onWire("WATCH", name), "+OK")
	}
	p.takes(onWire("WATCH", ""), "-ERR too many keys are watched")
	p.takes(onWire("UNWATCH"), "+OK")
	p.takes(onWire("WATCH", ""), "+OK")
}

func tryPrefixes(t *testing.T, w *way) {
	const most = 1024
	track := []string{"CLIENT", "TRACKING", "ON", "BCAST"}
	for i := range most {
		track = append(track, "PREFIX", fmt.Sprintf("%04d", i))
	}
	p := w.peer(t)
	p.takes(onWire("HELLO", "3"), "%")
	p.takes(onWire(append(track, "PREFIX", "x")...), "-ERR too many prefixes")
	p.takes(onWire(track...), "+OK")
}

func tryTransaction(t *testing.T, w *way) {
	const half = 8 << 20
	set := onWire("SET", "k", strings.Repeat("v", half-len(onWire("SET", "k", strings.Repeat("v", half)))+half))
	if len(set) != half {
		t.Fatalf("a command of %d bytes", len(set))
	}
	p := w.peer(t)
	for _, one := range []string{"", onWire("GET", "k")} {
		p.takes(onWire("MULTI"), "+OK")
		p.takes(set, "+QUEUED")
		p.takes(set, "+QUEUED")
		if one != "" {
			p.takes(one, "-ERR redoubt: the commands of this transaction, and the answers to them that are known, have more than 16 MiB")
			p.takes(onWire("EXEC"), "-EXECABORT")
			break
		}
		p.takes(onWire("EXEC"), "*2")
	}
	p.takes(onWire("DEL", "k"), ":1")
}

func trySource(t *testing.T, w *way) {
	const most = 4 << 20
	source := "return 1 --"
	source += strings.Repeat("x", most-len(source))
	p := w.peer(t)
	for _, c := range []struct{ words, want string }{{"EVAL", ":1"}, {"SCRIPT LOAD", "$40"}} {
		words := strings.Fields(c.words)
		more := []string{}
		if c.words == "EVAL" {
			more = []string{"0"}
		}
		p.takes(onWire(append(append(words, source), more...)...), c.want)
		p.takes(onWire(append(append(words, source+"x"), more...)...), "-ERR ")
	}
}

func tryMemcachedClients(t *testing.T, w *way) {
	tryMost(t, mostHere, func(t *testing.T) bool {
		t.Helper()
		p := w.peer(t)
		p.send("get k\r\n")
		got := p.line()
		if got != "END" && got != "ERROR Too many open connections" && got != "" {
			t.Errorf("%q", got)
		}
		return got != "END"
	})
}

func tryMemcachedKey(t *testing.T, w *way) {
	p, key := w.peer(t), strings.Repeat("k", 250)
	for _, c := range []struct{ before, after, want string }{
		{"get ", "", "END"}, {"delete ", "", "NOT_FOUND"}, {"touch ", " 0", "NOT_FOUND"}, {"set ", " 0 0 1\r\nv", "STORED"}, {"incr ", " 1", "CLIENT_ERROR cannot increment"},
	} {
		p.takes(c.before+key+c.after+"\r\n", c.want)
		p.takes(c.before+key+"k"+c.after+"\r\n", "CLIENT_ERROR bad command line format")
	}
}

func tryMemcachedValue(t *testing.T, w *way) {
	p := w.peer(t)
	p.takes(fmt.Sprintf("set k 0 0 %d\r\n%s\r\n", valueHere, strings.Repeat("v", valueHere)), "STORED")
	p.takes(fmt.Sprintf("set k 0 0 %d\r\n%s\r\n", valueHere+1, strings.Repeat("v", valueHere+1)), "SERVER_ERROR object too large for cache")
	p.takes("delete k\r\n", "DELETED")
}

func tryMemcachedRetrieval(t *testing.T, w *way) {
	line := func(n int) string {
		return "get k" + strings.Repeat(" k", (n-len("get k\r\n"))/2) + strings.Repeat(" ", n%2) + "\r\n"
	}
	if n := len(line(oneMiB + 1)); n != oneMiB+1 && n != oneMiB+2 {
		t.Fatal(n)
	}
	most := line(oneMiB - 1)
	most = most[:len(most)-2] + strings.Repeat(" ", oneMiB-len(most)) + "\r\n"
	w.peer(t).takes(most, "END")
	w.peer(t).refuses(most[:len(most)-2]+" \r\n", "CLIENT_ERROR line too long")
}

func tryMemcachedLine(t *testing.T, w *way) {
	most := "version" + strings.Repeat(" ", 2048-len("version\r\n"))
	w.peer(t).takes(most+"\r\n", "VERSION ")
	w.peer(t).refuses(most+" \r\n", "CLIENT_ERROR line too long")
}

// web connects to the HTTP server.
func (w *way) web(t *testing.T) *peer {
	t.Helper()
	conn, err := (&net.Dialer{Timeout: 20 * time.Second}).DialContext(t.Context(), "tcp", w.http)
	if err != nil {
		t.Fatal(err)
	}
	return newPeer(t, conn)
}

// asks sends a request with a body of an action, or none, and returns the status.
func (p *peer) asks(method, path, headers, body string) (status int) {
	p.t.Helper()
	if body != "" {
		headers += fmt.Sprintf("Content-Type: application/json\r\nContent-Length: %d\r\n", len(body))
	}
	p.send(method + " " + path + " HTTP/1.1\r\nHost: localhost\r\n" + headers + "\r\n" + body)
	r, err := http.ReadResponse(p.in, nil)
	if err != nil {
		return 0
	}
	defer func() { _ = r.Body.Close() }()
	_, _ = io.Copy(io.Discard, r.Body)
	return r.StatusCode
}

func (p *peer) wants(status int, method, path, headers, body string) {
	p.t.Helper()
	if got := p.asks(method, path, headers, body); got != status {
		p.t.Errorf("%s %.60s with %d bytes of headers and %d of a body: status %d, want %d", method, path, len(headers), len(body), got, status)
	}
}

func tryHTTPConns(t *testing.T, w *way) {
	http.DefaultClient.CloseIdleConnections()
	tryMost(t, 1000, func(t *testing.T) bool {
		t.Helper()
		status := w.web(t).asks("GET", "/livez", "", "")
		if status != http.StatusOK && status != http.StatusServiceUnavailable && status != 0 {
			t.Errorf("status %d", status)
		}
		return status != http.StatusOK
	})
}

func tryHTTPHeaders(t *testing.T, w *way) {
	const most = 20 << 10
	rest := most - len("GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n") - len("X: \r\n")
	w.web(t).wants(http.StatusOK, "GET", "/livez", "X: "+strings.Repeat("x", rest)+"\r\n", "")
	w.web(t).wants(http.StatusRequestHeaderFieldsTooLarge, "GET", "/livez", "X: "+strings.Repeat("x", rest+1)+"\r\n", "")
}

func tryHTTPBody(t *testing.T, w *way) {
	const most = 8 << 10
	action := `{"action":"queue.resume","name":"none"}`
	action += strings.Repeat(" ", most-len(action))
	w.web(t).wants(http.StatusOK, "POST", "/api/action", "", action)
	w.web(t).wants(http.StatusRequestEntityTooLarge, "POST", "/api/action", "", action+" ")
}

func tryHTTPSearch(t *testing.T, w *way) {
	q := strings.Repeat("q", 256)
	for _, path := range []string{"/api/snapshot?view=locks&q=", "/api/queue?name=none&state=ready&q="} {
		w.web(t).wants(http.StatusOK, "GET", path+q, "", "")
		w.web(t).wants(http.StatusBadRequest, "GET", path+q+"q", "", "")
	}
}

func tryHTTPPage(t *testing.T, w *way) {
	w.web(t).wants(http.StatusOK, "GET", "/api/queue?name=none&state=ready&page=1000000", "", "")
	w.web(t).wants(http.StatusBadRequest, "GET", "/api/queue?name=none&state=ready&page=1000001", "", "")
}

// TestHTTPTimes: a request has 5 s for its headers, and 10 s until it is complete.
func TestHTTPTimes(t *testing.T) {
	slow.Test(t, "it waits for time-outs of 5 and 10 s")
	w := startWay(t, "HTTP", "")
	began := time.Now()
	headers, whole := w.web(t), w.web(t)
	whole.send("POST /api/action HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 10\r\n\r\n{")
	headers.send("GET / HTTP/1.1\r\n")
	for _, c := range []struct {
		what  string
		p     *peer
		least time.Duration
	}{{"its headers", headers, 4 * time.Second}, {"its body", whole, 9 * time.Second}} {
		_, _ = io.Copy(io.Discard, c.p.in)
		if took := time.Since(began); took < c.least {
			t.Errorf("a request without %s was closed after %v", c.what, took)
		}
	}
}
