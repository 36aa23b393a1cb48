package engine

import (
	"bytes"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt/internal/resp"
	"github.com/redoubt-go/redoubt/internal/test/await"
	"github.com/redoubt-go/redoubt/internal/test/randtest"
)

// An oracle is a connection to a real redis-server.
type oracle struct {
	t     testing.TB
	conn  net.Conn
	buf   []byte
	chunk [1 << 16]byte
}

// startOracle runs redis-server for the length of the test, and returns the path of its socket. No
// other program can have that, as it could have a port.
func startOracle(t testing.TB) string {
	t.Helper()
	path, err := exec.LookPath("redis-server")
	if err != nil {
		t.Fatal("redis-server, to compare with, is not installed: make redis-server says how")
	}
	dir := t.TempDir()
	socket := filepath.Join(dir, "s") // its path has at most 107 bytes
	cmd := exec.Command(path, "--port", "0", "--unixsocket", socket, "--save", "", "--dir", dir)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // and what it died of is known
		_ = cmd.Wait()
	})
	await.Until(t, 10*time.Second, "redis-server answers", func() bool {
		conn, err := net.Dial("unix", socket)
		if err == nil {
			conn.Close()
		}
		return err == nil
	})
	return socket
}

func dialOracle(t testing.TB, socket string) *oracle {
	t.Helper()
	conn, err := net.Dial("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return &oracle{t: t, conn: conn}
}

func (o *oracle) do(args [][]byte) []byte {
	o.send(resp.AppendCommand(nil, args...))
	return o.read()
}

func (o *oracle) send(commands []byte) {
	if _, err := o.conn.Write(commands); err != nil {
		o.t.Fatal(err)
	}
}

func (o *oracle) read() []byte {
	var sc resp.ReplyScanner
	for {
		n, err := sc.Next(o.buf)
		if err != nil {
			o.t.Fatal(err)
		}
		if n > 0 {
			reply := slices.Clone(o.buf[:n])
			o.buf = o.buf[n:]
			return reply
		}
		if err := o.conn.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
			panic(err)
		}
		m, err := o.conn.Read(o.chunk[:])
		if err != nil {
			o.t.Fatal(err)
		}
		o.buf = append(o.buf, o.chunk[:m]...)
	}
}

// A pair runs each command on the engine and on Redis and compares.
type pair struct {
	t       testing.TB
	steps   *randtest.Steps
	s       *Session
	o       *oracle
	log     []string
	replied []byte // by the engine, to the last command
	failed  int
	slack   time.Duration
}

func newPair(t testing.TB, p resp.Protocol) *pair {
	t.Helper()
	e, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	pr := &pair{t: t, steps: randtest.Watch(t), s: e.Session(), o: dialOracle(t, startOracle(t))}
	if p == resp.RESP3 {
		pr.s.SetProtocol(p)
		pr.o.do(split("HELLO 3"))
	}
	return pr
}

func split(line string) [][]byte {
	var args [][]byte
	for w := range strings.FieldsSeq(line) {
		args = append(args, []byte(strings.ReplaceAll(w, "''", "")))
	}
	return args
}

func quote(args [][]byte) string {
	var b strings.Builder
	for _, a := range args {
		fmt.Fprintf(&b, "%q ", a)
	}
	return b.String()
}

// theLibrary is the name of a library or a function that is there already. Redis meets several in any order.
var theLibrary = regexp.MustCompile(`^-ERR (Library|Function) \S+ already exists`)

// unordered are the commands whose reply has no defined order, with the number
// of elements that belong together.
var unordered = map[string]int{
	"hgetall": 2, "hkeys": 1, "hvals": 1, "smembers": 1, "sunion": 1, "sinter": 1, "sdiff": 1, "keys": 1, "spop": 1, "sort": 1, "hscan": 2, "scan": 1, "sscan": 1, "zscan": 2, "function": 1, "config": 2,
}

// elements splits an aggregate into its elements.
func elements(reply []byte) (head []byte, parts [][]byte) {
	i := bytes.IndexByte(reply, '\n') + 1
	head, rest := reply[:i], reply[i:]
	for len(rest) > 0 {
		var sc resp.ReplyScanner
		n, err := sc.Next(rest)
		if err != nil || n == 0 {
			return reply, nil
		}
		parts = append(parts, rest[:n])
		rest = rest[n:]
	}
	return head, parts
}

func normalize(name string, reply []byte) []byte {
	if name == "function" {
		reply = theLibrary.ReplaceAll(reply, []byte("-ERR $1 already exists"))
	}
	group, ok := unordered[name]
	if !ok || len(reply) == 0 || !bytes.ContainsAny(reply[:1], "*~%") {
		return reply
	}
	head, parts := elements(reply)
	if strings.HasSuffix(name, "scan") && len(parts) == 2 {
		return append(slices.Clone(parts[0]), normalize(map[string]string{"scan": "keys", "sscan": "smembers", "hscan": "hgetall", "zscan": "hgetall"}[name], parts[1])...)
	}
	var groups []string
	for i := 0; i+group <= len(parts); i += group {
		groups = append(groups, string(bytes.Join(parts[i:i+group], nil)))
	}
	slices.Sort(groups)
	return append(slices.Clone(head), strings.Join(groups, "")...)
}

// near says whether two measured times, in unit, differ by no more than slack and the
// rounding.
func near(a, b []byte, slack, unit time.Duration) bool {
	if len(a) < 4 || len(b) < 4 || a[0] != ':' || b[0] != ':' {
		return false
	}
	x, ok1 := resp.ParseInt(a[1 : len(a)-2])
	y, ok2 := resp.ParseInt(b[1 : len(b)-2])
	most := int64(slack/unit) + 2
	return ok1 && ok2 && x > 0 && y > 0 && x-y <= most && y-x <= most
}

// nearTimes says whether two replies about consumers and pending entries are equal but for their times.
// The times are numbers behind a string: what is behind idle and seen-time, the moment of a delivery, and in
// XPENDING what is behind a name.
func nearTimes(got, want []byte, slack time.Duration) bool {
	g, w := bytes.SplitAfter(got, []byte("\r\n")), bytes.SplitAfter(want, []byte("\r\n"))
	if len(g) != len(w) {
		return false
	}
	for i := range g {
		if bytes.Equal(g[i], w[i]) {
			continue
		}
		isTime := i > 0 && !bytes.ContainsAny(g[i-1][:1], "*%:") && bytes.Equal(g[i-1], w[i-1]) && slices.Contains([]string{"idle", "seen-time", "c1", "c2", "c3", ""}, string(bytes.TrimSpace(g[i-1])))
		if !isTime && len(g[i]) < 13 || !nearTime(g[i], w[i], slack) {
			return false
		}
	}
	return true
}

// nearTime is near for times of 0 as well.
func nearTime(a, b []byte, slack time.Duration) bool {
	if len(a) < 4 || len(b) < 4 || a[0] != ':' || b[0] != ':' {
		return false
	}
	x, ok1 := resp.ParseInt(a[1 : len(a)-2])
	y, ok2 := resp.ParseInt(b[1 : len(b)-2])
	most := slack.Milliseconds() + 2
	return ok1 && ok2 && x-y <= most && y-x <= most
}

// timed are the commands that answer a time, in these units.
var timed = map[string]time.Duration{
	"pttl": time.Millisecond, "pexpiretime": time.Millisecond, "ttl": time.Second, "expiretime": time.Second, "object": time.Second,
}

// sameReply says whether two replies to a command are equal, but for their order where none is defined, and
// for times that may differ by slack.
func sameReply(name string, got, want []byte, slack time.Duration) bool {
	return bytes.Equal(got, want) || bytes.Equal(normalize(name, got), normalize(name, want)) ||
		(name == "xinfo" || name == "xpending") && nearTimes(got, want, slack) || timed[name] > 0 && near(got, want, slack, timed[name]) || name == "object" && got[0] == ':' && want[0] == ':' // IDLETIME of small integers, which Redis shares, is that of the server
}

func (p *pair) do(args [][]byte) {
	p.log = append(p.log, quote(args))
	name := strings.ToLower(string(args[0]))
	if strings.HasPrefix(name, "sort") {
		// SORT of Redis 7.0 takes an errno for its own that an earlier command
		// left, as ZADD k 1e400 m does. This one clears it, and does nothing else.
		p.o.do(argv("ZUNION", "1", "none", "WEIGHTS", "1"))
	}
	if name == "dbsize" { // a key whose time has passed counts until somebody finds it, or its turn to be swept comes
		exists := argv("EXISTS", "{t}1", "{t}2", "{t}3", "{t}4", "{t}5")
		p.s.Do(nil, exists)
		p.o.do(exists)
	}
	p.steps.Begin(func() string { return quote(args) })
	defer p.steps.End()
	began := time.Now()
	got, wait := p.s.Do(nil, args)
	if wait != nil {
		<-wait.Done()
		got = wait.Append(got)
	}
	p.replied = got
	want := p.o.do(args)
	p.slack = max(p.slack, time.Since(began)) // the two ran at most so far apart
	if sameReply(name, got, want, p.slack) {
		return
	}
	from := max(0, len(p.log)-25)
	p.t.Errorf("%s\n got %.400q\nwant %.400q\nafter:\n%s", quote(args), got, want, strings.Join(p.log[from:len(p.log)-1], "\n"))
	if p.failed++; p.failed >= 5 {
		p.t.FailNow()
	}
}
