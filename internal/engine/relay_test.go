package engine

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt/internal/rdb"
	"github.com/redoubt-go/redoubt/internal/test/await"
)

// A scriptedReplica asks an engine for its stream.
type scriptedReplica struct {
	t    *testing.T
	conn net.Conn
	in   *bufio.Reader
}

// startReplica sends a PSYNC, with the word fields behind it as an engine does.
func startReplica(t *testing.T, e *Engine, psync string) *scriptedReplica {
	t.Helper()
	psync, fields := strings.CutSuffix(psync, " fields")
	here, there := net.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	s := e.Session()
	_ = s.Replconf(split("REPLCONF capa psync2"))
	if fields {
		_ = s.Replconf(split("REPLCONF capa " + capaFields))
	}
	go func() {
		defer close(ended)
		_ = s.Replicate(ctx, there, nil, split(psync))
		_ = there.Close()
	}()
	t.Cleanup(func() {
		cancel()
		_ = here.Close()
		<-ended
	})
	_ = here.SetDeadline(time.Now().Add(time.Minute))
	return &scriptedReplica{t, here, bufio.NewReader(here)}
}

// line reads a line, and skips empty ones.
func (r *scriptedReplica) line() string {
	r.t.Helper()
	line, err := readLine(r.in)
	if err != nil {
		r.t.Fatal(err)
	}
	return line
}

// file reads the copy of all keys.
func (r *scriptedReplica) file() (f *rdb.FileReader, entries []rdb.Entry) {
	r.t.Helper()
	var size int
	if _, err := fmt.Sscanf(r.line(), "$%d", &size); err != nil {
		r.t.Fatal(err)
	}
	b := make([]byte, size)
	if _, err := io.ReadFull(r.in, b); err != nil {
		r.t.Fatal(err)
	}
	f, err := rdb.NewFileReader(bytes.NewReader(b))
	for err == nil {
		var e rdb.Entry
		if e, err = f.Next(); err == nil {
			entries = append(entries, e)
		}
	}
	if err != io.EOF { //nolint:errorlint // as it is documented
		r.t.Fatal(err)
	}
	return f, entries
}

// want reads a part of the stream.
func (r *scriptedReplica) want(stream string) {
	r.t.Helper()
	b := make([]byte, len(stream))
	if n, err := io.ReadFull(r.in, b); err != nil || string(b) != stream {
		r.t.Fatalf("the stream has %q, %v, want %q", b[:n], err, stream)
	}
}

// ended waits until the engine closes the connection.
func (r *scriptedReplica) ended() {
	r.t.Helper()
	if b, err := io.ReadAll(r.in); err != nil || len(b) > 0 {
		r.t.Fatalf("the stream goes on with %q, %v", b, err)
	}
}

// fullSync accepts the replica and sends a copy of keys, at offset 100 of the stream in database 3.
func (m *scriptedMaster) fullSync() {
	m.t.Helper()
	if got := m.accept(); got != "? -1" {
		m.t.Fatalf("PSYNC %s", got)
	}
	var b bytes.Buffer
	w, err := rdb.NewFileWriter(&b, rdb.Version, time.Now())
	if err == nil {
		err = w.StreamDB(3)
	}
	if err == nil {
		err = w.Write(stringEntry("first", "v", 0))
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		m.t.Fatal(err)
	}
	m.send(fmt.Sprintf("+FULLRESYNC %040d 100\r\n$%d\r\n%s", 7, b.Len(), b.String()))
}

// TestStreamIsPassedOn: a replica's own replica gets the bytes of the master's stream at the master's offsets, and of a
// transaction all or nothing. The stream goes on in the database that the master has selected.
func TestStreamIsPassedOn(t *testing.T) {
	m := startMaster(t)
	s := m.follower()
	if got := startReplica(t, s.e, "PSYNC ? -1").line(); got != "-NOMASTERLINK Can't SYNC while not connected with my master" {
		t.Errorf("without a link the engine answers %q", got)
	}
	m.fullSync()
	head := commandsOf("SET a 1", "PING")
	m.send(head)
	m.acked(100 + len(head))
	r := startReplica(t, s.e, "PSYNC ? -1")
	if got, wanted := r.line(), fmt.Sprintf("+FULLRESYNC %040d %d", 7, 100+len(head)); got != wanted {
		t.Fatalf("PSYNC is answered with %q, want %q", got, wanted)
	}
	if f, _ := r.file(); f.StreamDB() != 3 {
		t.Errorf("the stream is in database %d", f.StreamDB())
	}
	want(t, s, "SELECT 3", "+OK\r\n")
	want(t, s, "GET a", "$1\r\n1\r\n")
	more := commandsOf("INCR a", "REPLCONF GETACK *", "MULTI", "INCR a", "SELECT 4", "PING")
	m.send(more)
	r.want(commandsOf("INCR a", "REPLCONF GETACK *"))
	m.acked(100 + len(head) + len(commandsOf("INCR a"))) // GETACK
	again := startReplica(t, s.e, fmt.Sprintf("PSYNC %040d 101", 7))
	if got, wanted := again.line(), fmt.Sprintf("+CONTINUE %040d", 7); got != wanted {
		t.Fatalf("PSYNC is answered with %q, want %q", got, wanted)
	}
	whole := head + commandsOf("INCR a", "REPLCONF GETACK *")
	again.want(whole)
	_ = m.conn.Close() // in the transaction
	if got, wanted := m.accept(), fmt.Sprintf("%040d %d", 7, 101+len(whole)); got != wanted {
		t.Errorf("PSYNC %s, want %s", got, wanted)
	}
	if got := startReplica(t, s.e, fmt.Sprintf("PSYNC %040d 101", 7)).line(); !strings.HasPrefix(got, "-NOMASTERLINK ") {
		t.Errorf("without a link the engine answers %q", got)
	}
	m.send(fmt.Sprintf("+CONTINUE %040d\r\n", 7))
	rest := commandsOf("MULTI", "SELECT 4", "SET b 1", "EXEC", "SET c 1")
	m.send(rest)
	r.want(rest)
	again.want(rest)
	if got, wanted := linkField(s, "master_repl_offset"), fmt.Sprint(100+len(whole)+len(rest)); got != wanted {
		t.Errorf("master_repl_offset is %s, want %s", got, wanted)
	}
	if got := linkField(s, "connected_slaves"); got != "2" {
		t.Errorf("connected_slaves is %s", got)
	}
	want(t, s, "GET a", "$1\r\n2\r\n")
	want(t, s, "SELECT 4", "+OK\r\n")
	want(t, s, "MGET b c", "*2\r\n$1\r\n1\r\n$1\r\n1\r\n")
	// The master's place is taken by another server, which has the stream too.
	_ = m.conn.Close()
	m.accept()
	m.send(fmt.Sprintf("+CONTINUE %040d\r\n", 8))
	r.ended()
	again.ended()
	await.Until(t, time.Minute, "the link is up", func() bool { return linkField(s, "master_link_status") == "up" })
	if got, wanted := startReplica(t, s.e, fmt.Sprintf("PSYNC %040d 101", 7)).line(), fmt.Sprintf("+CONTINUE %040d", 8); got != wanted {
		t.Errorf("PSYNC is answered with %q, want %q", got, wanted)
	}
}

// TestCopyIsOfItsOffset: the copy of all keys for a replica's replica has exactly the changes in front of its offset of the
// stream, while the stream goes on.
func TestCopyIsOfItsOffset(t *testing.T) {
	m := startMaster(t)
	s := m.follower()
	m.fullSync()
	step := commandsOf("INCR first:n")
	m.send(step)
	m.acked(100 + len(step))
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		many := []byte(strings.Repeat(step, 100))
		for {
			select {
			case <-stop:
				return
			default:
			}
			if _, err := m.conn.Write(many); err != nil {
				t.Error(err)
				return
			}
		}
	}()
	for range 100 {
		r := startReplica(t, s.e, "PSYNC ? -1")
		var offset int
		if _, err := fmt.Sscanf(r.line(), fmt.Sprintf("+FULLRESYNC %040d %%d", 7), &offset); err != nil {
			t.Fatal(err)
		}
		_, entries := r.file()
		_ = r.conn.Close()
		got := ""
		for _, e := range entries {
			if v, err := rdb.Parse(e.Payload); err == nil && string(e.Key) == "first:n" {
				got = string(v.Str)
			}
		}
		if wanted := fmt.Sprint((offset - 100) / len(step)); got != wanted {
			t.Errorf("the copy at offset %d has %s, want %s", offset, got, wanted)
		}
	}
	close(stop)
	<-ended
}

// startChain starts a master, an engine that follows it, and a replica of that engine. Both have got stream.
func startChain(t *testing.T) (m *scriptedMaster, s *Session, r *scriptedReplica, stream string) {
	t.Helper()
	m = startMaster(t)
	s = m.follower()
	m.fullSync()
	stream = commandsOf("SET a 1")
	m.send(stream)
	m.acked(100 + len(stream))
	r = startReplica(t, s.e, fmt.Sprintf("PSYNC %040d 101", 7))
	r.line()
	r.want(stream)
	return m, s, r, stream
}

// TestFormerReplicaLeads: a replica that becomes the master goes on with the stream under another ID. A server that has the
// former stream no further than the change goes on too; all others get a copy of all keys.
//
// Promise: a replica never goes on with the stream of a server that lacks a change which the replica has.
func TestFormerReplicaLeads(t *testing.T) {
	m, s, r, stream := startChain(t)
	want(t, s, "REPLICAOF NO ONE", "+OK\r\n")
	r.ended()
	id := linkField(s, "master_replid")
	if got := linkField(s, "master_replid2"); got != fmt.Sprintf("%040d", 7) || id == got {
		t.Errorf("master_replid is %s, master_replid2 is %s", id, got)
	}
	if got, wanted := linkField(s, "second_repl_offset"), fmt.Sprint(101+len(stream)); got != wanted {
		t.Errorf("second_repl_offset is %s, want %s", got, wanted)
	}
	want(t, s, "SELECT 3", "+OK\r\n")
	want(t, s, "INCR a", ":2\r\n")
	mine := commandsOf("SELECT 3", "INCR a")
	for _, from := range []int{101, 101 + len(stream)} {
		r := startReplica(t, s.e, fmt.Sprintf("PSYNC %040d %d", 7, from))
		if got := r.line(); got != "+CONTINUE "+id {
			t.Errorf("PSYNC from %d is answered with %q", from, got)
		}
		r.want((stream + mine)[from-101:])
	}
	for _, psync := range []string{
		fmt.Sprintf("PSYNC %040d %d", 7, 102+len(stream)), fmt.Sprintf("PSYNC %040d 100", 7), fmt.Sprintf("PSYNC %s %d", id, 102+len(stream+mine)),
		"PSYNC " + strings.Repeat("0", 40) + " 101",
	} {
		if got := startReplica(t, s.e, psync).line(); !strings.HasPrefix(got, "+FULLRESYNC "+id) {
			t.Errorf("%s is answered with %q", psync, got)
		}
	}
	want(t, s, "INCR a", ":3\r\n")
	// It follows again, and asks to go on where it is.
	end := linkField(s, "master_repl_offset")
	host, port, _ := net.SplitHostPort(m.l.Addr().String())
	want(t, s, "REPLICAOF "+host+" "+port, "+OK\r\n")
	got := m.accept()
	var next int
	if _, err := fmt.Sscanf(got, id+" %d", &next); err != nil || fmt.Sprint(next-1) != end {
		t.Errorf("PSYNC %s, want %s and what follows %s", got, id, end)
	}
	m.send(fmt.Sprintf("+CONTINUE %040d\r\n", 9) + mine)
	next += len(mine)
	m.acked(next - 1)
	want(t, s, "GET a", "$1\r\n4\r\n")
	// Another master has the same stream.
	other := startMaster(t)
	host, port, _ = net.SplitHostPort(other.l.Addr().String())
	want(t, s, "REPLICAOF "+host+" "+port, "+OK\r\n")
	if got, wanted := other.accept(), fmt.Sprintf("%040d %d", 9, next); got != wanted {
		t.Errorf("PSYNC %s, want %s", got, wanted)
	}
	other.send("+CONTINUE\r\n" + commandsOf("INCR a"))
	next += len(commandsOf("INCR a"))
	other.acked(next - 1)
	want(t, s, "GET a", "$1\r\n5\r\n")
	want(t, s, "REPLICAOF NO ONE", "+OK\r\n")
	want(t, s, "INCR a", ":6\r\n")
	r = startReplica(t, s.e, fmt.Sprintf("PSYNC %040d %d", 9, next))
	r.line()
	r.want(mine)
}

// TestFailedStreamIsNotPassedOn: behind a change that the engine can't repeat, neither its replicas nor the engine itself go
// on with the stream.
func TestFailedStreamIsNotPassedOn(t *testing.T) {
	m, s, r, _ := startChain(t)
	m.send(commandsOf("MULTI", "SET b 1", "LPUSH a x", "EXEC"))
	r.ended()
	want(t, s, "REPLICAOF NO ONE", "+OK\r\n")
	if got := startReplica(t, s.e, fmt.Sprintf("PSYNC %040d 101", 7)).line(); !strings.HasPrefix(got, "+FULLRESYNC ") {
		t.Errorf("PSYNC is answered with %q", got)
	}
	host, port, _ := net.SplitHostPort(m.l.Addr().String())
	want(t, s, "REPLICAOF "+host+" "+port, "+OK\r\n")
}

// TestExpiredFieldsAreHidden: clients of a replica don't see a field that has expired, although it is there until the
// master deletes it. The master's stream sees it.
func TestExpiredFieldsAreHidden(t *testing.T) {
	for _, size := range []int{3, 1000} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			m := startMaster(t)
			s := m.follower()
			m.fullSync()
			past := time.Now().Add(-time.Minute).UnixMilli()
			set := "HSET h a 1 b 22 c 333"
			for i := 3; i < size; i++ {
				set += fmt.Sprintf(" f%d v", i)
			}
			stream := commandsOf(set, fmt.Sprintf("HPEXPIREAT h %d FIELDS 2 a b", past), "HPEXPIREAT h 4000000000000 FIELDS 1 c",
				"HSET gone a 1", fmt.Sprintf("HPEXPIREAT gone %d FIELDS 1 a", past), "RPUSH l h", "HSET other a 1")
			m.send(stream)
			at := 100 + len(stream)
			m.acked(at)
			want(t, s, "SELECT 3", "+OK\r\n")
			for command, wanted := range map[string]string{
				"HGET h a": "$-1\r\n", "HMGET h a c": "*2\r\n$-1\r\n$3\r\n333\r\n", "HEXISTS h a": ":0\r\n", "HEXISTS h c": ":1\r\n",
				"HSTRLEN h b": ":0\r\n", "HLEN h": fmt.Sprintf(":%d\r\n", size-2), "HPTTL h FIELDS 1 a": "*1\r\n:-2\r\n",
				"HPEXPIRETIME h FIELDS 2 b c": "*2\r\n:-2\r\n:4000000000000\r\n", "SORT_RO l BY nosort GET *->a GET *->c": "*2\r\n$-1\r\n$3\r\n333\r\n",
				"EXISTS gone": ":0\r\n", "TYPE gone": "+none\r\n", "HGETALL gone": "*0\r\n", "HLEN gone": ":0\r\n", "HRANDFIELD gone": "$-1\r\n",
				"EVAL return{redis.call('HGET','h','a')} 1 h": "*1\r\n$-1\r\n", "HSCAN h 0 COUNT 5000 MATCH [ab]": "*2\r\n$1\r\n0\r\n*0\r\n", "HSCAN h 0 MATCH c COUNT 5000": "*2\r\n$1\r\n0\r\n*2\r\n$1\r\nc\r\n$3\r\n333\r\n",
			} {
				want(t, s, command, wanted)
			}
			for _, command := range []string{"HGETALL h", "HKEYS h", "HVALS h", "HSCAN h 0 COUNT 5000", "HRANDFIELD h 5000", "HRANDFIELD h -5000", "HRANDFIELD h 2000 WITHVALUES"} {
				got := run(s, command)
				if strings.Contains(got, "\r\na\r\n") || strings.Contains(got, "\r\nb\r\n") || strings.Contains(got, "\r\n22\r\n") {
					t.Errorf("%s shows an expired field", command)
				}
				if !strings.Contains(got, "\r\nc\r\n") && !strings.Contains(got, "\r\n333\r\n") {
					t.Errorf("%s does not show another field", command)
				}
				if n := strings.Count(got, "$") + strings.Count(got, ":"); command == "HKEYS h" && n != size-2 {
					t.Errorf("HKEYS has %d fields", n)
				}
			}
			for range 50 {
				if got := run(s, "HRANDFIELD h"); got == "$1\r\na\r\n" || got == "$1\r\nb\r\n" {
					t.Errorf("HRANDFIELD: %q", got)
				}
			}
			// The master has made one of them last, and deleted the other.
			stream = commandsOf("HINCRBY h a 5", "HPERSIST h FIELDS 1 a", "HDEL h b", "HDEL gone a")
			m.send(stream)
			m.acked(at + len(stream))
			want(t, s, "HMGET h a b", "*2\r\n$1\r\n6\r\n$-1\r\n")
			want(t, s, "HLEN h", fmt.Sprintf(":%d\r\n", size-1))
			want(t, s, "DBSIZE", ":3\r\n")
			// A client that may write finds the field deleted.
			want(t, s, "CONFIG SET replica-read-only no", "+OK\r\n")
			stream2 := commandsOf(fmt.Sprintf("HPEXPIREAT other %d FIELDS 1 a", past))
			m.send(stream2)
			m.acked(at + len(stream) + len(stream2))
			want(t, s, "HINCRBY other a 5", ":5\r\n")
			want(t, s, "HGET other a", "$1\r\n5\r\n")
		})
	}
}

// TestOldReplicaEnds: times to live of fields end a replica that may be a Redis before 7.4, and it can't go on with the stream. A server
// that has read the file of a later Redis can, and so can an engine. HSETEX comes as commands of Redis 7.4.
//
// Promise: a replica that does not know a change of the engine gets a file that it refuses.
func TestOldReplicaEnds(t *testing.T) {
	e := open(t, Options{})
	s := e.Session()
	synced := func(psync string) *scriptedReplica {
		r := startReplica(t, e, psync)
		r.line()
		if f, _ := r.file(); f.Version() != rdb.Version {
			t.Errorf("the file has version %d", f.Version())
		}
		return r
	}
	old, newer := synced("PSYNC ? -1"), synced("PSYNC ? -1 fields")
	want(t, s, "HSETEX h FIELDS 1 a 1", ":1\r\n")
	head := commandsOf("SELECT 0", "HSET h a 1")
	old.want(head)
	newer.want(head)
	id, at := linkField(s, "master_replid"), linkField(s, "master_repl_offset")
	want(t, s, "HSETEX h PXAT 4000000000000 FIELDS 2 a 2 b 3", ":1\r\n")
	want(t, s, "HSETEX h KEEPTTL FIELDS 2 b 4 c 5", ":1\r\n")
	old.ended()
	newer.want(commandsOf("MULTI", "HSET h a 2 b 3", "HPEXPIREAT h 4000000000000 FIELDS 1 a", "HPEXPIREAT h 4000000000000 FIELDS 1 b", "EXEC",
		"MULTI", "HSET h b 4 c 5", "HPEXPIREAT h 4000000000000 FIELDS 1 b", "EXEC"))
	want(t, s, "DEL h", ":1\r\n")
	psync := fmt.Sprintf("PSYNC %s %d", id, atoi(t, at)+1)
	if got := startReplica(t, e, psync+" fields").line(); got != "+CONTINUE "+id {
		t.Errorf("an engine's %s is answered with %q", psync, got)
	}
	again := startReplica(t, e, psync)
	if got := again.line(); !strings.HasPrefix(got, "+FULLRESYNC ") {
		t.Errorf("%s is answered with %q", psync, got)
	}
	if f, _ := again.file(); f.Version() != rdb.VersionFieldTTL {
		t.Errorf("the file has version %d", f.Version())
	}
	more := commandsOf("MULTI", "HSET h a 2", "HPEXPIREAT h 4000000000000 FIELDS 1 a", "EXEC")
	want(t, s, "HSETEX h PXAT 4000000000000 FIELDS 1 a 2", ":1\r\n")
	again.want(commandsOf("SELECT 0") + more)
	last := startReplica(t, e, fmt.Sprintf("PSYNC %s %d", id, atoi(t, linkField(s, "master_repl_offset"))+1))
	if got := last.line(); got != "+CONTINUE "+id {
		t.Errorf("what has read the file gets %q", got)
	}
}

func atoi(t *testing.T, text string) (n int) {
	t.Helper()
	if _, err := fmt.Sscan(text, &n); err != nil {
		t.Fatal(err)
	}
	return n
}

// TestLateMessagesStayOut: a message locks no shard, so it may come when this engine has just got a master. The master's
// stream does not take it.
func TestLateMessagesStayOut(t *testing.T) {
	r := &open(t, Options{}).replication
	before := r.end
	r.append(0, [][][]byte{argv("PUBLISH", "channel", "message")})
	if r.end != before {
		t.Errorf("%d bytes came into a stream of another", r.end-before)
	}
}

// TestReplicasSayWhereTheyAre: an address or a name, which INFO and ROLE print among other fields.
func TestReplicasSayWhereTheyAre(t *testing.T) {
	s := open(t, Options{}).Session()
	for where, ok := range map[string]bool{"10.0.0.7": true, "::1": true, "replica-1.local": true, strings.Repeat("n", 255): true,
		strings.Repeat("n", 256): false, "a b": false, "a,port=1": false, "a\r\nb": false} {
		if err := s.Replconf(argv("REPLCONF", "ip-address", where)); (err == nil) != ok {
			t.Errorf("%q: %v", where, err)
		}
	}
}
