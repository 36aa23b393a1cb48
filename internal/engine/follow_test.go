package engine

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt/internal/rdb"
	"github.com/redoubt-go/redoubt/internal/resp"
	"github.com/redoubt-go/redoubt/internal/test/await"
)

// A scriptedMaster plays a master, one connection after the other.
type scriptedMaster struct {
	t    *testing.T
	l    net.Listener
	conn net.Conn
	in   *bufio.Reader
	scan resp.CommandScanner
	buf  []byte
}

func startMaster(t *testing.T) *scriptedMaster {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return &scriptedMaster{t: t, l: l}
}

// accept waits for the replica, and answers until it asks for the stream. It returns the arguments of PSYNC.
func (m *scriptedMaster) accept() string {
	m.t.Helper()
	var err error
	if m.conn, err = m.l.Accept(); err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(func() { _ = m.conn.Close() })
	m.in, m.buf = bufio.NewReader(m.conn), nil
	for {
		args := m.next()
		switch args[0] {
		case "PING":
			m.send("+PONG\r\n")
		case "PSYNC":
			return strings.Join(args[1:], " ")
		default:
			m.send("+OK\r\n")
		}
	}
}

// next reads a command of the replica.
func (m *scriptedMaster) next() []string {
	m.t.Helper()
	if err := m.conn.SetReadDeadline(time.Now().Add(30 * time.Second)); err != nil {
		m.t.Fatal(err)
	}
	for {
		n, err := m.scan.Next(m.buf)
		if err != nil {
			m.t.Fatal(err)
		}
		if n > 0 {
			var args []string
			for _, a := range m.scan.Args() {
				args = append(args, string(a))
			}
			m.buf = m.buf[n:]
			return args
		}
		chunk := make([]byte, 1024)
		n, err = m.in.Read(chunk)
		if err != nil {
			m.t.Fatal(err)
		}
		m.buf = append(m.buf, chunk[:n]...)
	}
}

// acked reads until the replica acknowledges an offset.
func (m *scriptedMaster) acked(offset int) {
	m.t.Helper()
	for {
		if args := m.next(); len(args) == 3 && args[1] == "ACK" && args[2] == fmt.Sprint(offset) {
			return
		}
	}
}

func (m *scriptedMaster) send(text string) {
	m.t.Helper()
	if _, err := m.conn.Write([]byte(text)); err != nil {
		m.t.Fatal(err)
	}
}

// commands are commands of the stream.
func commandsOf(lines ...string) string {
	var out []byte
	for _, line := range lines {
		out = resp.AppendCommand(out, strings.Fields(line)...)
	}
	return string(out)
}

// file is an RDB file with keys.
func file(t *testing.T, entries ...rdb.Entry) string {
	t.Helper()
	var b bytes.Buffer
	w, err := rdb.NewFileWriter(&b, rdb.Version, time.Now())
	for _, e := range entries {
		if err == nil {
			err = w.Write(e)
		}
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func stringEntry(key, value string, deadline int64) rdb.Entry {
	return rdb.Entry{Key: []byte(key), Deadline: deadline, Payload: rdb.Payload(nil, &rdb.Value{Kind: rdb.String, Str: []byte(value)})}
}

// follower is an engine that follows m.
func (m *scriptedMaster) follower() *Session {
	m.t.Helper()
	s := open(m.t, Options{}).Session()
	host, port, _ := net.SplitHostPort(m.l.Addr().String())
	want(m.t, s, "REPLICAOF "+host+" "+port, "+OK\r\n")
	return s
}

func linkField(s *Session, wanted string) string {
	for line := range strings.Lines(run(s, "INFO replication")) {
		if name, value, _ := strings.Cut(strings.TrimSpace(line), ":"); name == wanted {
			return value
		}
	}
	return ""
}

// TestExpiringKeysSurvive: what expired at the replica's clock while the file was on its way is there for the
// stream: the master has made it last longer.
//
// Promise: a replica deletes no key by itself.
func TestExpiringKeysSurvive(t *testing.T) {
	m := startMaster(t)
	s := m.follower()
	if got := m.accept(); got != "? -1" {
		t.Errorf("PSYNC %s", got)
	}
	past := time.Now().Add(-time.Minute).UnixMilli()
	f := file(t, stringEntry("kept", "v", past), stringEntry("gone", "v", past))
	m.send(fmt.Sprintf("\n\n+FULLRESYNC %040d 100\r\n\n$%d\r\n%s", 7, len(f), f))
	stream := commandsOf("SELECT 0", "PERSIST kept", fmt.Sprintf("SET short v PXAT %d", past))
	m.send(stream)
	m.acked(100 + len(stream))
	want(t, s, "GET kept", "$1\r\nv\r\n")
	want(t, s, "GET gone", "$-1\r\n") // clients don't see it
	want(t, s, "DBSIZE", ":3\r\n")
	m.send(commandsOf("DEL gone", "PEXPIREAT short 4000000000000"))
	m.acked(100 + len(stream) + len(commandsOf("DEL gone", "PEXPIREAT short 4000000000000")))
	want(t, s, "DBSIZE", ":2\r\n")
	want(t, s, "GET short", "$1\r\nv\r\n")
	want(t, s, "SET x 1", "-READONLY You can't write against a read only replica.\r\n")
	if got := run(s, "EVAL return{redis.call('SET','x','1')} 0"); !strings.HasPrefix(got, "-READONLY ") {
		t.Errorf("a script writes: %q", got)
	}
}

// TestStreamGoesOn: a replica asks for what follows what it has, begins again with a MULTI that was cut, and tells
// its offset when it is asked.
func TestStreamGoesOn(t *testing.T) {
	m := startMaster(t)
	s := m.follower()
	m.accept()
	mark := strings.Repeat("0123456789", 4)
	m.send(fmt.Sprintf("+FULLRESYNC %040d 0\r\n$EOF:%s\r\n%s%s", 7, mark, file(t), mark))
	m.acked(0)
	head := commandsOf("SELECT 3", "SET a 1")
	m.send(head + commandsOf("REPLCONF GETACK *"))
	m.acked(len(head))
	head += commandsOf("REPLCONF GETACK *")
	m.send(commandsOf("MULTI", "INCR a"))
	_ = m.conn.Close()
	if got, wanted := m.accept(), fmt.Sprintf("%040d %d", 7, len(head)+1); got != wanted {
		t.Errorf("PSYNC %s, want %s", got, wanted)
	}
	m.send(fmt.Sprintf("+CONTINUE %040d\r\n", 8) + commandsOf("MULTI", "INCR a", "EXEC"))
	m.acked(len(head + commandsOf("MULTI", "INCR a", "EXEC")))
	want(t, s, "SELECT 3", "+OK\r\n")
	want(t, s, "GET a", "$1\r\n2\r\n")
	if got := linkField(s, "master_replid"); got != fmt.Sprintf("%040d", 8) {
		t.Errorf("master_replid is %s", got)
	}
	want(t, s, "REPLICAOF NO ONE", "+OK\r\n")
	want(t, s, "INCR a", ":3\r\n")
}

// TestStreamStops: what can't be repeated ends the replication, with its reason, and is not skipped.
//
// Promise: a replica stops at a change that it can't repeat.
func TestStreamStops(t *testing.T) {
	for name, c := range map[string]struct{ stream, reason string }{
		"an unknown command": {commandsOf("SET a 1", "NOSUCH b", "SET a 2"), "NOSUCH can't be repeated"},
		"an error":           {commandsOf("SET a 1", "LPUSH a b", "SET a 2"), "LPUSH can't be repeated: \"WRONGTYPE"},
		"an error in EXEC":   {commandsOf("SET a 1", "MULTI", "LPUSH a b", "SET c 2", "EXEC", "SET a 2"), "EXEC can't be repeated: \"WRONGTYPE"},
		"a wait":             {commandsOf("SET a 1", "BLPOP b 0", "SET a 2"), "BLPOP of the master's stream waits here"},
		"no protocol":        {commandsOf("SET a 1") + "*x\r\n", "the stream is broken"},
	} {
		t.Run(name, func(t *testing.T) {
			m := startMaster(t)
			s := m.follower()
			m.accept()
			f := file(t)
			m.send(fmt.Sprintf("+FULLRESYNC %040d 0\r\n$%d\r\n%s%s", 7, len(f), f, c.stream))
			await.Until(t, time.Minute, "the link is down for good", func() bool { return linkField(s, "master_link_final") == "true" })
			if got := linkField(s, "master_link_error"); !strings.Contains(got, c.reason) {
				t.Errorf("the reason is %q, want %q", got, c.reason)
			}
			want(t, s, "GET a", "$1\r\n1\r\n")
			want(t, s, "SET a 3", "-READONLY You can't write against a read only replica.\r\n")
		})
	}
}

// TestNoWritesWithoutReplicas: min-replicas-to-write refuses writes, and nothing else.
func TestNoWritesWithoutReplicas(t *testing.T) {
	s := open(t, Options{}).Session()
	run(s, "SET a 1")
	want(t, s, "CONFIG SET min-replicas-to-write 1", "+OK\r\n")
	want(t, s, "SET a 2", "-NOREPLICAS Not enough good replicas to write.\r\n")
	want(t, s, "GET a", "$1\r\n1\r\n")
	want(t, s, "CONFIG SET min-replicas-to-write 0", "+OK\r\n")
	want(t, s, "SET a 2", "+OK\r\n")
}

// TestSnapshotIsOfOneMoment: a snapshot has the keys as they were when it began, whatever changes meanwhile, and the
// next one is whole after one that failed.
//
// Promise: a snapshot has all keys as they were at one moment.
func TestSnapshotIsOfOneMoment(t *testing.T) {
	e := open(t, Options{})
	s := e.Session()
	const n = 20_000
	for i := range n {
		run(s, fmt.Sprintf("SET k%d before", i))
	}
	for round := range 4 {
		got := map[string]string{}
		first := true
		err := e.snapshot(t.Context(), func() {}, func(entries []rdb.Entry) error {
			if first { // with the snapshot under way
				first = false
				for i := 0; i < n; i += 2 {
					run(s, fmt.Sprintf("APPEND k%d after", i))
				}
				run(s, "SET new after")
				run(s, "RENAME k1 renamed")
				run(s, "DEL k3")
				if round == 1 {
					run(s, "SWAPDB 0 1")
					run(s, "SWAPDB 0 1")
				}
			}
			for _, entry := range entries {
				v, err := rdb.Parse(entry.Payload)
				if err != nil {
					return err
				}
				if _, twice := got[string(entry.Key)]; twice {
					return fmt.Errorf("%s comes twice", entry.Key)
				}
				got[string(entry.Key)] = string(v.Str)
			}
			return nil
		})
		if round == 1 {
			if err == nil {
				t.Error("databases were swapped, and the snapshot has not failed")
			}
		} else if err != nil {
			t.Fatal(err)
		} else if len(got) != n {
			t.Errorf("round %d: %d keys, want %d", round, len(got), n)
		}
		for k, v := range got {
			if v != "before" {
				t.Fatalf("round %d: %s is %s", round, k, v)
			}
		}
		for i := range n {
			run(s, fmt.Sprintf("SET k%d before", i))
		}
		run(s, "DEL new renamed")
	}
}

// TestStreamOfOldRedis: a Redis before 7.0 sends times to live as they were given.
func TestStreamOfOldRedis(t *testing.T) {
	m := startMaster(t)
	s := m.follower()
	m.accept()
	f := file(t)
	m.send(fmt.Sprintf("+FULLRESYNC %040d 0\r\n$%d\r\n%s", 7, len(f), f))
	stream := commandsOf("SET a 1 PX 100000", "SET b 1", "EXPIRE b 100")
	m.send(stream)
	m.acked(len(stream))
	for _, line := range []string{"TTL a", "TTL b"} {
		if got := run(s, line); got != ":100\r\n" && got != ":99\r\n" {
			t.Errorf("%s: %q", line, got)
		}
	}
}

// TestReplicaKeepsWhatItsMasterKeeps: above maxmemory a replica evicts nothing, whatever its clients send.
func TestReplicaKeepsWhatItsMasterKeeps(t *testing.T) {
	m := startMaster(t)
	s := m.follower()
	m.accept()
	f := file(t)
	m.send(fmt.Sprintf("+FULLRESYNC %040d 0\r\n$%d\r\n%s", 7, len(f), f))
	var lines []string
	for i := range 500 {
		lines = append(lines, fmt.Sprintf("SET k%d %s", i, strings.Repeat("x", 100)))
	}
	stream := commandsOf(lines...)
	m.send(stream)
	m.acked(len(stream))
	want(t, s, "CONFIG SET maxmemory 20000 maxmemory-policy allkeys-random", "+OK\r\n")
	want(t, s, "EVAL return{1} 0", "*1\r\n:1\r\n")
	more := commandsOf("SET more 1")
	m.send(more)
	m.acked(len(stream) + len(more))
	want(t, s, "DBSIZE", ":501\r\n")
}

// TestWaitsOfWAITEnd: WAIT is forgotten when its client has gone, and ends when the engine closes.
func TestWaitsOfWAITEnd(t *testing.T) {
	e, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := e.Session()
	_, wait := s.Do(nil, split("WAIT 1 0"))
	wait.Cancel()
	await.Until(t, time.Minute, "it is forgotten", func() bool {
		e.replication.mu.Lock()
		defer e.replication.mu.Unlock()
		return len(e.replication.waits) == 0
	})
	_, wait = s.Do(nil, split("WAIT 1 0"))
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	<-wait.Done()
	if got := string(wait.Append(nil)); got != "-ERR the engine is closed\r\n" {
		t.Errorf("WAIT ends with %q", got)
	}
}

// TestReplicaTooFarBehindIsClosed: a replica that does not read costs the engine 256 MiB at most.
//
// Promise: the changes that wait for a slow replica are bounded.
func TestReplicaTooFarBehindIsClosed(t *testing.T) {
	r := &replication{}
	r.init()
	r.backlog.Store(1 << 20)
	here, there := net.Pipe()
	defer there.Close()
	ended := make(chan error, 1)
	slow := &feed{conn: here, cancel: func(err error) { ended <- err }}
	r.feeds[slow] = struct{}{}
	part := make([]byte, 1<<20)
	for range mostBehind / len(part) {
		r.write(part)
	}
	if slow.err != nil {
		t.Fatalf("it was closed too early: %v", slow.err)
	}
	r.write(part)
	if err := <-ended; err != errBehind { //nolint:errorlint // the very one
		t.Errorf("it ends with %v", err)
	}
	r.write(part)
	if held := r.end - r.base; held > 2<<20 {
		t.Errorf("%d bytes are kept", held)
	}
	if _, err := there.Read(part); err == nil {
		t.Error("the connection is open")
	}
}
