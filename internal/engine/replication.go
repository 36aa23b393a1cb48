package engine

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redoubt-go/redoubt/internal/rdb"
	"github.com/redoubt-go/redoubt/internal/resp"
)

// replication is the engine as the master of replicas that speak Redis' protocol: REPLCONF, PSYNC or SYNC, an RDB
// file, and then the stream of changes. The stream has the effects that the log has too. It begins with the first
// replica, and ends an hour after the last. The stream of an engine that follows a master is the master's.
//
// Locks are taken in the order repeating, shard, Wait, mu, master. WAIT's Waits have no keys, so a Wait may be finished with
// mu held.
type replication struct {
	on atomic.Bool // changes go to the stream; set with every shard locked

	// repeating is held while a command of the master's stream is repeated and passed on, and while a snapshot
	// begins: a snapshot has all commands in front of an offset and no later one.
	repeating sync.Mutex

	least, mostLag     atomic.Int64 // min-replicas-to-write and min-replicas-max-lag
	backlog            atomic.Int64 // bytes: repl-backlog-size
	ping, timeout, ttl atomic.Int64 // seconds: repl-ping-replica-period, repl-timeout and repl-backlog-ttl
	writable           atomic.Bool  // replica-read-only no: clients may write to this replica. The master does not learn of these writes
	full, ok, miss     atomic.Int64 // of INFO: copies of all keys, PSYNCs that went on with the stream, PSYNCs that could not
	noStale            atomic.Bool  // replica-serve-stale-data no: clients may not read while there is no connection to the master

	mu     sync.Mutex
	more   *sync.Cond // the stream has grown, or a replica is to end
	relays bool       // the stream is that of this engine's master
	id     string     // of the stream; a later stream has another
	id2    string     // that the stream had before, "" for none
	until2 int64      // the last offset with id2
	fields int64      // the offset of the first command that only Redis 7.4 knows, -1 for none: see noteFields
	chunks [][]byte   // the end of the stream: at least the backlog, and what a replica hasn't got
	base   int64      // offset of the first byte of chunks
	end    int64
	db     int // that the stream has selected, -1 for none
	feeds  map[*feed]struct{}
	waits  map[*Wait]ackWait
	idle   time.Time // since when there is no replica
	tick   Timer
	ticks  bool // tick is to come
	buf    []byte
}

// A feed is a replica that is connected.
type feed struct {
	host, port string
	conn       net.Conn
	cancel     context.CancelCauseFunc // ends what it waits for
	at         int64                   // offset of what it gets next
	acked      atomic.Int64            // -1 before the first
	ackedAt    atomic.Int64            // Unix ms
	online     bool
	fields     bool  // it knows times to live of fields
	err        error // why it ends
}

// A replicaSetup is what a connection has said by REPLCONF.
type replicaSetup struct {
	ip, port    string
	eof, psync2 bool
	fields      bool
}

// ackWait is a WAIT for replicas.
type ackWait struct {
	replicas int64
	offset   int64
}

const (
	streamChunk = 64 << 10
	// mostBehind is how much of the stream may wait for a replica.
	mostBehind = 256 << 20
)

func seconds(n *atomic.Int64) time.Duration { return time.Duration(n.Load()) * time.Second }

var errBehind = errors.New("more than 256 MiB of changes wait for it")

func (r *replication) init() {
	r.more = sync.NewCond(&r.mu)
	r.feeds, r.waits = map[*feed]struct{}{}, map[*Wait]ackWait{}
	r.id, r.db, r.fields = newRunID(), -1, -1
}

// append adds the effects of a call to the stream. Their shards are locked; a message has none, so this engine may have got
// a master meanwhile, with a stream of its own.
func (r *replication) append(db int, commands [][][]byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.on.Load() {
		return
	}
	r.buf = r.buf[:0]
	many := 0
	for _, args := range commands {
		if !is(args[0], "select") {
			many++
		}
		if setsFields(args) {
			r.noteFields()
		}
	}
	if db != r.db {
		r.selectDB(db)
	}
	if many > 1 {
		r.buf = resp.AppendCommand(r.buf, "MULTI")
	}
	for _, args := range commands {
		if is(args[0], "select") {
			n, _ := parseInt(args[1])
			r.db = int(n)
		}
		r.buf = resp.AppendCommand(r.buf, args...)
	}
	if many > 1 {
		r.buf = resp.AppendCommand(r.buf, "EXEC")
	}
	r.write(r.buf)
	if cap(r.buf) > 1<<20 {
		r.buf = nil
	}
}

func (r *replication) selectDB(db int) {
	r.buf = resp.AppendCommand(r.buf, "SELECT", strconv.Itoa(db))
	r.db = db
}

// write adds bytes to the stream. mu is held.
func (r *replication) write(b []byte) {
	r.end += int64(len(b))
	for len(b) > 0 {
		last := len(r.chunks) - 1
		if last < 0 || len(r.chunks[last]) == cap(r.chunks[last]) {
			r.chunks = append(r.chunks, make([]byte, 0, streamChunk))
			last++
		}
		c := r.chunks[last]
		n := min(len(b), cap(c)-len(c))
		r.chunks[last] = append(c, b[:n]...)
		b = b[n:]
	}
	keep := r.end - r.backlog.Load()
	for f := range r.feeds {
		switch {
		case f.err != nil:
		case r.end-f.at > mostBehind:
			f.end(errBehind)
		default:
			keep = min(keep, f.at)
		}
	}
	for len(r.chunks) > 0 && r.base+int64(len(r.chunks[0])) <= keep {
		r.base += int64(len(r.chunks[0]))
		r.chunks[0] = nil
		r.chunks = r.chunks[1:]
	}
	r.more.Broadcast()
}

// next waits for more of the stream for f, and returns a part of it.
func (r *replication) next(f *feed) ([]byte, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for f.err == nil && f.at == r.end {
		r.more.Wait()
	}
	if f.err != nil {
		return nil, f.err
	}
	behind := f.at - r.base
	part := r.chunks[behind/streamChunk][behind%streamChunk:] // all chunks but the last are full
	f.at += int64(len(part))
	return part, nil
}

// end ends a replica, also one that does not read. The replication's mu is held.
func (f *feed) end(err error) {
	if f.err == nil {
		f.err = err
		f.cancel(err)
		go f.conn.Close() // TLS may wait for the other side
	}
}

// stop ends a replica.
func (r *replication) stop(f *feed, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f.end(err)
	r.more.Broadcast()
}

// beginStream starts the stream. Every shard is locked, and mu is held.
func (e *Engine) beginStream() {
	r := &e.replication
	if r.on.Load() {
		return
	}
	r.on.Store(true)
	r.db = -1
	r.startTick(e)
}

// exists reports whether there is a stream. mu is held.
func (r *replication) exists() bool { return r.on.Load() || r.relays }

// startTick makes tickReplicas run while a stream exists. mu is held.
func (r *replication) startTick(e *Engine) {
	if !r.ticks && r.exists() && !e.closed.Load() {
		r.ticks = true
		r.tick = e.clock.AfterFunc(seconds(&r.ping), e.tickReplicas)
	}
}

// endStream ends the stream: no replica may go on with it later.
func (e *Engine) endStream() {
	e.stopped(func() {
		r := &e.replication
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.on.Load() && len(r.feeds) == 0 { // or else one has just come
			r.on.Store(false)
			r.forget()
		}
		r.startTick(e)
	})
}

func (r *replication) forget() {
	r.id, r.id2, r.db, r.fields, r.chunks, r.base = newRunID(), "", -1, -1, nil, r.end
}

// tickReplicas sends PING to the replicas from time to time, and ends replicas that have not acknowledged for long. A
// stream of this engine's master has the master's PINGs.
func (e *Engine) tickReplicas() {
	r := &e.replication
	r.mu.Lock()
	now := e.clock.Now()
	late := now.Add(-seconds(&r.timeout)).UnixMilli()
	for f := range r.feeds {
		if f.online && f.ackedAt.Load() < late && f.err == nil {
			f.end(errors.New("it has acknowledged nothing for as long as repl-timeout"))
		}
	}
	if r.on.Load() && len(r.feeds) > 0 {
		r.write(resp.AppendCommand(nil, "PING"))
	}
	over := r.on.Load() && len(r.feeds) == 0 && r.ttl.Load() > 0 && now.Sub(r.idle) >= seconds(&r.ttl)
	if r.ticks = false; !over {
		r.startTick(e)
	}
	r.mu.Unlock()
	if over {
		e.endStream()
	}
}

// Replconf answers a REPLCONF of a connection that is about to send PSYNC, with an error or nil.
func (s *Session) Replconf(args [][]byte) error {
	if len(args)%2 == 0 {
		return errors.New("ERR syntax error")
	}
	for i := 1; i+1 < len(args); i += 2 {
		switch name, value := args[i], string(args[i+1]); {
		case is(name, "listening-port"):
			if _, err := strconv.ParseUint(value, 10, 16); err != nil {
				return errors.New("ERR value is not an integer or out of range")
			}
			s.replica.port = value
		case is(name, "ip-address"):
			if len(value) > 255 || strings.ContainsFunc(value, func(r rune) bool { return r <= ' ' || r > '~' || r == ',' }) {
				return errors.New("ERR REPLCONF ip-address provided by replica instance is neither an address nor a name")
			}
			s.replica.ip = value
		case is(name, "capa"):
			s.replica.eof = s.replica.eof || value == "eof"
			s.replica.psync2 = s.replica.psync2 || value == "psync2"
			s.replica.fields = s.replica.fields || value == capaFields
		case is(name, "version"), is(name, "ack"), is(name, "getack"), is(name, "rdb-only"):
		default:
			return errors.New("ERR Unrecognized REPLCONF option: " + clip(name, 128))
		}
	}
	return nil
}

// Replicate serves a replica: args are its PSYNC or SYNC. It returns when the connection or ctx ends, and closes the
// connection. unread are bytes of the client that were read already.
func (s *Session) Replicate(ctx context.Context, conn net.Conn, unread []byte, args [][]byte) error {
	e, r := s.e, &s.e.replication
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	host, _, _ := net.SplitHostPort(conn.RemoteAddr().String())
	f := &feed{host: cmp.Or(s.replica.ip, host), port: s.replica.port, conn: timedConn{conn, &r.timeout}, cancel: cancel, fields: s.replica.fields}
	f.acked.Store(-1)
	f.ackedAt.Store(e.clock.Now().UnixMilli())
	defer context.AfterFunc(ctx, func() { r.stop(f, context.Cause(ctx)) })()
	defer r.leave(e, f)
	acked := make(chan struct{})
	go e.listen(conn, unread, f, acked)
	sync := is(args[0], "sync")
	id, goesOn := "", false
	r.mu.Lock()
	has := e.hasStream()
	r.mu.Unlock()
	if !has {
		return f.refuse()
	}
	if !sync {
		id, goesOn = e.resume(f, string(args[1]), args[2])
	}
	if goesOn {
		r.ok.Add(1)
		line := "+CONTINUE\r\n"
		if s.replica.psync2 {
			line = "+CONTINUE " + id + "\r\n"
		}
		if _, err := io.WriteString(f.conn, line); err != nil {
			return err
		}
	} else {
		r.full.Add(1)
		if !sync && !is(args[1], "?") {
			r.miss.Add(1)
		}
		if err := e.sendAll(ctx, f, s.replica.eof, sync); err != nil {
			return fmt.Errorf("the replica got no copy of all keys: %w", err)
		}
		if s.replica.eof { // it looks for the end of the file where its reads end
			select {
			case <-acked:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
	}
	r.mu.Lock()
	f.online = true
	r.mu.Unlock()
	r.countAcks()
	for {
		part, err := r.next(f)
		if err != nil {
			return err
		}
		if _, err := f.conn.Write(part); err != nil {
			return err
		}
	}
}

// A timedConn gives up a write after repl-timeout.
type timedConn struct {
	net.Conn

	timeout *atomic.Int64
}

func (c timedConn) Write(p []byte) (int, error) {
	if err := c.SetWriteDeadline(time.Now().Add(seconds(c.timeout))); err != nil {
		return 0, err
	}
	return c.Conn.Write(p)
}

func (r *replication) leave(e *Engine, f *feed) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f.end(net.ErrClosed)
	delete(r.feeds, f)
	if len(r.feeds) == 0 {
		r.idle = e.clock.Now()
	}
}

// resume reports whether a replica can go on from an offset, and then adds it. It returns the stream's ID.
func (e *Engine) resume(f *feed, id string, offset []byte) (string, bool) {
	r := &e.replication
	n, ok := parseInt(offset)
	r.mu.Lock()
	defer r.mu.Unlock()
	if !ok || !e.hasStream() || !r.exists() || n-1 < r.base || n-1 > r.end {
		return "", false
	}
	if !strings.EqualFold(id, r.id) && (r.id2 == "" || !strings.EqualFold(id, r.id2) || n-1 > r.until2) {
		return "", false
	}
	if r.fields >= 0 && !f.fields {
		if n-1 <= r.fields {
			return "", false
		}
		f.fields = true // it has read a file of this kind
	}
	f.at = n - 1
	r.feeds[f] = struct{}{}
	return r.id, true
}

// keepWaiting sends an empty line every few seconds until the function that it returns is called: the replica then
// knows that the master is there.
func keepWaiting(conn net.Conn) (end func()) {
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		t := time.NewTicker(5 * time.Second)
		defer t.Stop()
		for {
			select {
			case <-t.C:
				if _, err := io.WriteString(conn, "\n"); err != nil {
					return
				}
			case <-stop:
				return
			}
		}
	}()
	return sync.OnceFunc(func() {
		close(stop)
		<-ended
	})
}

// sendAll sends the copy of all keys as they are at one moment. The stream goes on from there for the replica.
func (e *Engine) sendAll(ctx context.Context, f *feed, eof, sync bool) (err error) { //nolint:revive // what the replica can
	r := &e.replication
	endWait := keepWaiting(f.conn)
	defer func() { endWait() }()
	var to io.Writer = f.conn
	mark := ""
	var spool *os.File
	if !eof { // it wants the length first
		if spool, err = os.CreateTemp("", "redoubt-sync-"); err != nil {
			return err
		}
		defer func() {
			_ = spool.Close()
			_ = os.Remove(spool.Name())
		}()
		to = spool
	} else {
		var raw [20]byte
		_, _ = rand.Read(raw[:])
		mark = hex.EncodeToString(raw[:])
	}
	var w *fileCopy
	head := ""
	err = e.snapshot(ctx, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if !e.hasStream() {
			return
		}
		w = e.newCopy(to)
		if r.fields >= 0 {
			w.version = rdb.VersionFieldTTL
		}
		f.fields = f.fields || w.version == rdb.VersionFieldTTL
		if m := e.master.Load(); m != nil {
			w.streamDB = m.s.db
		} else {
			e.beginStream()
			r.db = -1 // the replica has selected none
		}
		f.at = r.end
		r.feeds[f] = struct{}{}
		if !sync {
			head = fmt.Sprintf("+FULLRESYNC %s %d\r\n", r.id, r.end)
		}
		if eof {
			head += "$EOF:" + mark + "\r\n"
		}
	}, func(entries []rdb.Entry) error {
		if w == nil {
			return errNoLink
		}
		if head != "" {
			endWait()
			if _, err := io.WriteString(f.conn, head); err != nil {
				return err
			}
			if head = ""; !eof {
				endWait = keepWaiting(f.conn)
			}
		}
		return w.write(entries)
	})
	if errors.Is(err, errNoLink) {
		endWait()
		return f.refuse()
	}
	if err != nil {
		return err
	}
	if err := w.close(); err != nil {
		return err
	}
	endWait()
	if eof {
		_, err = io.WriteString(f.conn, mark)
		return err
	}
	size, err := spool.Seek(0, io.SeekEnd)
	if err == nil {
		_, err = spool.Seek(0, io.SeekStart)
	}
	if err == nil {
		_, err = fmt.Fprintf(f.conn, "$%d\r\n", size)
	}
	if err == nil {
		_, err = io.Copy(f.conn, spool)
	}
	return err
}

var errNoLink = errors.New("this replica has no connection to its master")

// refuse tells a replica that this engine has no master's stream to pass on now.
func (f *feed) refuse() error {
	_, _ = io.WriteString(f.conn, "-NOMASTERLINK Can't SYNC while not connected with my master\r\n")
	return errNoLink
}

// listen reads what a replica acknowledges. It closes acked at the first.
func (e *Engine) listen(conn net.Conn, unread []byte, f *feed, acked chan struct{}) {
	r := &e.replication
	in := io.MultiReader(bytes.NewReader(unread), conn)
	scanner := resp.CommandScanner{Limits: resp.Limits{MaxArgs: 16, MaxBulk: 1 << 10}} // what a replica sends is short
	var buf []byte
	chunk := make([]byte, 4<<10)
	for {
		n, err := in.Read(chunk)
		buf = append(buf, chunk[:n]...)
		for len(buf) > 0 {
			used, bad := scanner.Next(buf)
			if bad != nil {
				err = bad
			}
			if used == 0 || bad != nil {
				break
			}
			if a := scanner.Args(); len(a) == 3 && is(a[0], "replconf") && is(a[1], "ack") {
				if offset, ok := parseInt(a[2]); ok {
					f.acked.Store(offset)
					f.ackedAt.Store(e.clock.Now().UnixMilli())
					r.countAcks()
				}
				if acked != nil {
					close(acked)
					acked = nil
				}
			}
			buf = buf[used:]
		}
		if err != nil {
			r.stop(f, err)
			if acked != nil {
				close(acked)
			}
			return
		}
	}
}

// have returns how many replicas have acknowledged an offset. mu is held.
func (r *replication) have(offset int64) (n int64) {
	for f := range r.feeds {
		if f.online && f.acked.Load() >= offset {
			n++
		}
	}
	return n
}

// countAcks ends the WAITs that have enough.
func (r *replication) countAcks() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for w, a := range r.waits {
		if n := r.have(a.offset); n >= a.replicas {
			delete(r.waits, w)
			w.finish(resp.AppendInt(nil, n))
		}
	}
}

// cmdWait waits until so many replicas have acknowledged all changes so far.
func cmdWait(c *call) {
	replicas, ok := c.argInt(c.args[1])
	if !ok {
		return
	}
	timeout, ok := parseInt(c.args[2])
	switch {
	case !ok:
		c.err("ERR timeout is not an integer or out of range")
		return
	case timeout < 0:
		c.err("ERR timeout is negative")
		return
	}
	r := &c.e.replication
	r.mu.Lock()
	defer r.mu.Unlock()
	if c.e.master.Load() != nil {
		c.err("ERR WAIT cannot be used with replica instances. Please also note that since Redis 4.0 if a replica is configured to be writable (which is not the default) writes to replicas are just local and are not propagated.")
		return
	}
	offset := r.end
	n := r.have(offset)
	if n >= replicas {
		c.int(n)
		return
	}
	c.block(nil, 0, resp.AppendInt(nil, n))
	w := c.wait
	if w == nil {
		return
	}
	r.waits[w] = ackWait{replicas, offset}
	if len(r.feeds) > 0 {
		r.write(resp.AppendCommand(nil, "REPLCONF", "GETACK", "*"))
	}
	if timeout > 0 {
		w.mu.Lock()
		w.timer = c.e.clock.AfterFunc(longest(timeout), func() {
			r.mu.Lock()
			n := r.have(offset)
			r.mu.Unlock()
			w.finish(resp.AppendInt(nil, n))
		})
		w.mu.Unlock()
	}
}

// forgetWait is called for every command that has ended to wait.
func (r *replication) forgetWait(w *Wait) {
	if w.cmd.Name == "wait" {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.waits, w)
	}
}

// endWaits ends all WAITs with a reply. mu is held.
func (r *replication) endWaits(reply []byte) {
	for w := range r.waits {
		delete(r.waits, w)
		w.finish(reply)
	}
}

// enough reports whether as many replicas are there as min-replicas-to-write asks for.
func (r *replication) enough(clock Clock) bool {
	least := r.least.Load()
	if least == 0 || r.mostLag.Load() == 0 {
		return true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.good(clock.Now()) >= least
}

// good returns how many replicas have acknowledged lately. mu is held.
func (r *replication) good(now time.Time) (n int64) {
	for f := range r.feeds {
		if f.online && now.UnixMilli()-f.ackedAt.Load() <= 1000*r.mostLag.Load() {
			n++
		}
	}
	return n
}

// replicas returns a description of each replica, by address.
func (r *replication) replicas(now time.Time) (all []replicaState) {
	for f := range r.feeds {
		state := "wait_bgsave"
		if f.online {
			state = "online"
		}
		all = append(all, replicaState{f.host, f.port, state, max(0, f.acked.Load()), max(0, (now.UnixMilli()-f.ackedAt.Load())/1000)})
	}
	slices.SortFunc(all, func(a, b replicaState) int { return strings.Compare(a.host+":"+a.port, b.host+":"+b.port) })
	return all
}

type replicaState struct {
	host, port, state string
	offset, lag       int64
}

// close ends all replicas, for good.
func (r *replication) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.tick != nil {
		r.tick.Stop()
	}
	for f := range r.feeds {
		f.end(ErrClosed)
	}
	r.endWaits(errorReply(closed))
	r.more.Broadcast()
}

// info writes the part of INFO on the replicas and the stream.
func (r *replication) info(b *strings.Builder, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := r.replicas(now)
	fmt.Fprintf(b, "connected_slaves:%d\r\n", len(all))
	for i, f := range all {
		fmt.Fprintf(b, "slave%d:ip=%s,port=%s,state=%s,offset=%d,lag=%d\r\n", i, f.host, f.port, f.state, f.offset, f.lag)
	}
	if r.least.Load() > 0 && r.mostLag.Load() > 0 {
		fmt.Fprintf(b, "min_slaves_good_slaves:%d\r\n", r.good(now))
	}
	active, first, size := 0, int64(0), int64(0)
	if r.exists() {
		active, first, size = 1, r.base+1, r.end-r.base
	}
	id2, until2 := strings.Repeat("0", 40), int64(-1)
	if r.id2 != "" {
		id2, until2 = r.id2, r.until2+1
	}
	fmt.Fprintf(b, "master_failover_state:no-failover\r\nmaster_replid:%s\r\nmaster_replid2:%s\r\nmaster_repl_offset:%d\r\nsecond_repl_offset:%d\r\nrepl_backlog_active:%d\r\nrepl_backlog_size:%d\r\nrepl_backlog_first_byte_offset:%d\r\nrepl_backlog_histlen:%d\r\n",
		r.id, id2, r.end, until2, active, r.backlog.Load(), first, size)
}

// cmdRole answers with the role: a master with its replicas, or a replica with its master.
func cmdRole(c *call) {
	if m := c.e.master.Load(); m != nil {
		m.mu.Lock()
		defer m.mu.Unlock()
		port, _ := strconv.ParseInt(m.port, 10, 64) // it was checked
		c.array(5)
		c.str("slave")
		c.str(m.host)
		c.int(port)
		c.str(string(m.state))
		if m.state == linkConnected {
			c.int(m.offset.Load())
		} else {
			c.int(-1)
		}
		return
	}
	r := &c.e.replication
	r.mu.Lock()
	defer r.mu.Unlock()
	all := r.replicas(c.e.clock.Now())
	c.array(3)
	c.str("master")
	c.int(r.end)
	c.array(len(all))
	for _, f := range all {
		c.array(3)
		c.str(f.host)
		c.str(f.port)
		c.str(strconv.FormatInt(f.offset, 10))
	}
}
