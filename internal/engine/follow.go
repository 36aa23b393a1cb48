package engine

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redoubt-go/redoubt/internal/rdb"
	"github.com/redoubt-go/redoubt/internal/rediscmd"
	"github.com/redoubt-go/redoubt/internal/resp"
)

// A master is a Redis, a Valkey or an engine that this engine follows as a replica: REPLICAOF. The engine first gets a
// copy of all keys, in place of its own, and then the stream of changes. A connection that was lost goes on where
// it ended, as long as the master has that part of its stream. Meanwhile clients may only read, and nothing expires
// by itself: the master's stream deletes it. Replicas of this engine get that stream on: see relay.go.
//
// A change that can't be repeated here ends the replication for good, and is not skipped. INFO has the reason. While the
// engine can't save, it waits.
type master struct {
	e          *Engine
	host, port string
	listening  string // the port that clients of this engine use, "" for none
	cancel     context.CancelFunc
	done       chan struct{}
	s          *Session // that repeats the stream
	reply      []byte   // its memory

	offset  atomic.Int64 // of the stream, all before it is repeated and saved as the log promises
	read    atomic.Int64 // bytes of the file so far
	heard   atomic.Int64 // when something came, Unix ms
	loading atomic.Bool  // the copy of all keys comes
	mu      sync.Mutex
	state   linkState
	since   time.Time // of state
	err     error     // why there is no connection
	failed  bool      // err is final

	// Of the goroutine that follows.
	multi  int64  // the offset in front of the MULTI that is open, -1 for none
	parted []byte // the bytes from there on
	fields bool   // setsFields is true of a command that was not passed on yet
}

type linkState string

// The states have their names from Redis' ROLE.
const (
	linkConnect    linkState = "connect"
	linkConnecting linkState = "connecting"
	linkSync       linkState = "sync"
	linkConnected  linkState = "connected"
)

const (
	masterRetry = time.Second
	masterDial  = 5 * time.Second
	ackEvery    = time.Second
)

// finalError is an error after which the replication can't go on.
type finalError struct{ error }

func (m *master) addr() string { return net.JoinHostPort(m.host, m.port) }

// follow makes the engine a replica of a server.
func (e *Engine) follow(host, port, listening string) {
	e.roles.Lock()
	defer e.roles.Unlock()
	if e.closed.Load() {
		return
	}
	was := e.stopMaster() // it stays the master until the next one takes its place, so that nobody can write
	ctx, cancel := context.WithCancel(context.Background())
	m := &master{e: e, host: host, port: port, listening: listening, cancel: cancel, done: make(chan struct{}), s: e.unlisted(), state: linkConnect, since: time.Now(), multi: -1}
	m.s.replays = true
	m.s.SyncLater()
	// With every shard locked no command is under way. A later one finds that this is a replica.
	e.stopped(func() {
		e.master.Store(m)
		e.endWrites()
		e.replication.turn(m, was)
	})
	if !e.background.start(func() { m.run(ctx) }) {
		close(m.done)
	}
}

// unfollow makes the engine a master again, with the keys that it has. It reports whether it was a replica.
func (e *Engine) unfollow() bool {
	e.roles.Lock()
	defer e.roles.Unlock()
	m := e.stopMaster()
	if m == nil {
		return false
	}
	if m.loading.Load() {
		e.logger().Warn("the copy of the master's keys was not complete", slog.String("master", m.addr()))
	}
	e.stopped(func() {
		e.master.Store(nil)
		e.replication.promote(e)
	})
	e.sweeper.wake(e, e.nowMS())
	return true
}

// stopMaster ends the replication, and returns the master if there is one. roles is held.
func (e *Engine) stopMaster() *master {
	m := e.master.Load()
	if m != nil {
		m.cancel()
		<-m.done
	}
	return m
}

// endWrites ends the commands that wait in order to write. Every shard is locked.
func (e *Engine) endWrites() {
	var ends []*Wait
	for i := range e.shards {
		for _, waits := range e.shards[i].blocked {
			for _, w := range waits {
				if w.cmd.flags&flagWrite != 0 {
					ends = append(ends, w)
				}
			}
		}
	}
	for _, w := range ends {
		w.finish(errorReply(errRoleChanged))
	}
}

const errRoleChanged = "UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)"

func cmdReplicaof(c *call) {
	host, port := string(c.args[1]), string(c.args[2])
	if c.noBlock || c.s.replays {
		c.err("ERR redoubt: " + strings.ToUpper(c.cmd.Name) + " is not supported in a transaction or a script")
		return
	}
	if is(c.args[1], "no") && is(c.args[2], "one") {
		if c.e.unfollow() {
			c.e.logger().Info("the engine is a master now", slog.String("by", "REPLICAOF NO ONE"))
		}
		c.ok()
		return
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		c.err("ERR Invalid master port")
		return
	}
	if m := c.e.master.Load(); m != nil && m.host == host && m.port == port && !m.hasFailed() {
		c.status("OK Already connected to specified master")
		return
	}
	listening := ""
	if c.s.outer != nil {
		listening = c.s.outer.Settings()["port"]
	}
	c.e.follow(host, port, listening)
	c.ok()
}

// logger returns the log for events of the replication.
func (e *Engine) logger() *slog.Logger {
	if log := e.opts.Logger; log != nil {
		return log
	}
	return slog.New(slog.DiscardHandler)
}

// run follows the master until ctx ends.
func (m *master) run(ctx context.Context) {
	defer close(m.done)
	said := ""
	for {
		up := false
		err := m.guarded(ctx, &up)
		final := false
		if f, ok := errors.AsType[finalError](err); ok {
			err, final = f.error, true
			m.e.replication.abandon() // a part of a transaction may be done
		}
		if ctx.Err() != nil {
			return
		}
		if up {
			said = ""
		}
		m.set(linkConnect, err, final)
		if err.Error() != said {
			said = err.Error()
			m.e.logger().Warn("the replication has no connection", slog.String("master", m.addr()), slog.Bool("final", final), slog.Any("error", err))
		}
		if final {
			<-ctx.Done()
			return
		}
		select {
		case <-time.After(masterRetry):
		case <-ctx.Done():
			return
		}
	}
}

func (m *master) connected() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state == linkConnected
}

func (m *master) hasFailed() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.failed
}

func (m *master) set(state linkState, err error, final bool) { //nolint:revive // the parameter is a part of the state
	m.mu.Lock()
	defer m.mu.Unlock()
	m.state, m.err, m.failed, m.since = state, err, final, time.Now()
}

// guarded is connectOnce. A panic ends the replication, not the process.
func (m *master) guarded(ctx context.Context, up *bool) (err error) {
	defer func() {
		if r := recover(); r != nil {
			m.e.panicked("replication", "", r)
			err = finalError{errors.New("internal error: " + panicText(r))}
		}
	}()
	return m.connectOnce(ctx, up)
}

// connectOnce connects and follows until the connection ends. up says whether it had one.
func (m *master) connectOnce(ctx context.Context, up *bool) error {
	m.set(linkConnecting, m.lastErr(), false)
	conn, err := m.e.dial(ctx, m.host, m.port, masterDial)
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	in := bufio.NewReaderSize(&heardReader{m, conn}, 256<<10) // an rdb.FileReader uses a reader of this size itself, and so reads no further than the file
	id, offset, err := m.shakeHands(conn, in)
	if err != nil {
		return err
	}
	if id != "" {
		m.set(linkSync, nil, false)
		if err := m.load(ctx, in, id, offset); err != nil {
			return fmt.Errorf("the copy of all keys: %w", err)
		}
		m.e.logger().Info("the engine has a copy of all keys", slog.String("master", m.addr()))
	} else {
		m.e.logger().Info("the replication goes on where it was", slog.String("master", m.addr()))
	}
	*up = true
	m.set(linkConnected, nil, false)
	stop := make(chan struct{})
	defer close(stop)
	go m.acknowledge(conn, stop)
	return m.repeat(ctx, conn, in)
}

func (m *master) lastErr() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.err
}

// A heardReader notes when something comes, and gives up after repl-timeout.
type heardReader struct {
	m    *master
	conn net.Conn
}

func (r *heardReader) Read(p []byte) (int, error) {
	if err := r.conn.SetReadDeadline(time.Now().Add(seconds(&r.m.e.replication.timeout))); err != nil {
		return 0, err
	}
	n, err := r.conn.Read(p)
	if n > 0 {
		r.m.heard.Store(time.Now().UnixMilli())
		if r.m.loading.Load() {
			r.m.read.Add(int64(n))
		}
	}
	return n, err
}

// dial connects to another server.
func (e *Engine) dial(ctx context.Context, host, port string, timeout time.Duration) (net.Conn, error) {
	d, addr := &net.Dialer{Timeout: timeout}, net.JoinHostPort(host, port)
	if e.setting("tls-replication") == "yes" {
		return (&tls.Dialer{NetDialer: d, Config: &tls.Config{ServerName: host}}).DialContext(ctx, "tcp", addr)
	}
	return d.DialContext(ctx, "tcp", addr)
}

// ask sends a command and returns the line of its reply.
func ask(conn net.Conn, in *bufio.Reader, args ...string) (string, error) {
	if _, err := conn.Write(resp.AppendCommand(nil, args...)); err != nil {
		return "", err
	}
	return readLine(in)
}

// readLine skips the empty lines that a master sends to say that it is alive.
func readLine(in *bufio.Reader) (string, error) {
	for {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return "", err
		}
		if line = bytes.TrimSpace(line); len(line) > 0 {
			return string(line), nil
		}
	}
}

// shakeHands logs in and asks for the stream. With an id, the copy of all keys at an offset comes first.
func (m *master) shakeHands(conn net.Conn, in *bufio.Reader) (id string, offset int64, err error) {
	user, password := m.e.setting("masteruser"), m.e.setting("masterauth")
	listening, ip := m.listening, m.e.setting("replica-announce-ip")
	if port := m.e.setting("replica-announce-port"); port != "0" {
		listening = port
	}
	for _, args := range [][]string{
		{"PING"}, {"AUTH", user, password}, {"REPLCONF", "listening-port", listening}, {"REPLCONF", "ip-address", ip}, {"REPLCONF", "capa", "eof", "capa", "psync2", "capa", capaFields},
	} {
		switch {
		case args[0] == "AUTH" && password == "" || args[0] == "REPLCONF" && args[2] == "":
			continue
		case args[0] == "AUTH" && user == "":
			args = []string{"AUTH", password}
		}
		line, err := ask(conn, in, args...)
		if err != nil {
			return "", 0, err
		}
		mayFail := args[0] == "REPLCONF" || args[0] == "PING" && (strings.HasPrefix(line, "-NOAUTH") || strings.HasPrefix(line, "-NOPERM"))
		if line[0] == '-' && !mayFail {
			return "", 0, fmt.Errorf("the master answers %s with %q", args[0], line[1:])
		}
	}
	was, next := "?", int64(-1)
	if id := m.e.replication.relayed(); id != "" {
		was, next = id, m.offset.Load()+1
	}
	line, err := ask(conn, in, "PSYNC", was, strconv.FormatInt(next, 10))
	if err != nil {
		return "", 0, err
	}
	switch words := strings.Fields(line); {
	case words[0] == "+FULLRESYNC" && len(words) == 3:
		offset, err := strconv.ParseInt(words[2], 10, 64)
		return words[1], offset, err
	case words[0] == "+CONTINUE" && was != "?":
		if len(words) > 1 {
			m.e.replication.rename(words[1])
		}
		return "", 0, nil
	}
	return "", 0, fmt.Errorf("the master answers PSYNC with %q", strings.TrimPrefix(line, "-"))
}

// load replaces all keys and functions by the contents of the file that the master sends.
func (m *master) load(ctx context.Context, in *bufio.Reader, id string, offset int64) error {
	m.e.replication.abandon() // until all keys have come
	m.read.Store(0)
	m.loading.Store(true) // until a copy is complete
	head, err := readLine(in)
	if err != nil {
		return err
	}
	mark, isMark := strings.CutPrefix(head, "$EOF:")
	if head[0] != '$' || isMark && len(mark) != 40 {
		return fmt.Errorf("the master sends %.100q in place of a file", head)
	}
	m.s.Reset()
	if err := m.do(ctx, nil, []byte("FLUSHALL")); err != nil {
		return err
	}
	if err := m.do(ctx, nil, []byte("FUNCTION"), []byte("FLUSH")); err != nil {
		return err
	}
	f, err := rdb.NewFileReader(in)
	if err != nil {
		return err
	}
	libraries := 0
	for {
		e, err := f.Next()
		for _, code := range f.Libraries()[libraries:] {
			if err := m.do(ctx, nil, []byte("FUNCTION"), []byte("LOAD"), []byte(code)); err != nil {
				return err
			}
			libraries++
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = m.put(ctx, &e)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			return err
		}
	}
	if isMark {
		got := make([]byte, len(mark))
		if _, err := io.ReadFull(in, got); err != nil {
			return err
		}
		if string(got) != mark {
			return fmt.Errorf("the file does not end where the master says")
		}
	}
	if err := m.s.Sync(); err != nil {
		return err
	}
	if m.s.db = f.StreamDB(); m.s.db >= databaseCount {
		return finalError{fmt.Errorf("the stream is in database %d; there are %d here", m.s.db, databaseCount)}
	}
	m.offset.Store(offset)
	m.e.replication.begin(m.e, id, offset)
	m.multi = -1
	m.loading.Store(false)
	return nil
}

// put adds a key of the file.
func (m *master) put(ctx context.Context, e *rdb.Entry) error {
	if what := rdb.Unsupported(e.Payload); what != "" {
		return finalError{fmt.Errorf("key %.100q in database %d can't be stored here: %s", e.Key, e.DB, what)}
	}
	if e.DB >= databaseCount {
		return finalError{fmt.Errorf("key %.100q is in database %d; there are %d here", e.Key, e.DB, databaseCount)}
	}
	m.s.db = e.DB
	return m.do(ctx, nil, []byte("RESTORE"), e.Key, strconv.AppendInt(nil, e.Deadline, 10), e.Payload, []byte("ABSTTL"), []byte("REPLACE"))
}

// do repeats a command, which stands as raw in the stream. While this engine can't save, it waits.
func (m *master) do(ctx context.Context, raw []byte, args ...[]byte) error {
	for {
		why, err := m.try(raw, args)
		switch {
		case err != nil || why == "":
			return err
		case !strings.HasPrefix(why, "MISCONF "):
			return finalError{fmt.Errorf("%s can't be repeated: %.200q", clip(args[0], 32), why)}
		case is(args[0], "exec") || m.s.inMulti: // the transaction is gone: the next connection begins with it
			return errors.New(why)
		}
		m.note(errors.New(why))
		select {
		case <-time.After(masterRetry):
		case <-ctx.Done():
			return ctx.Err()
		}
		m.note(nil)
	}
}

// try repeats a command once, and passes it on. It returns why the command was refused.
func (m *master) try(raw []byte, args [][]byte) (why string, err error) {
	r := &m.e.replication
	r.repeating.Lock()
	defer r.repeating.Unlock()
	out, wait := m.s.Do(m.reply[:0], args)
	if wait != nil {
		wait.Cancel()
		return "", finalError{fmt.Errorf("%s of the master's stream waits here", clip(args[0], 32))}
	}
	m.reply = out
	if cap(out) > maxIdleReply {
		m.reply = nil
	}
	if why = refusal(out, is(args[0], "exec")); why == "" {
		m.fields = m.fields || setsFields(args)
		m.pass(raw)
	}
	return why, nil
}

// note sets what INFO shows as the error, while the connection stays.
func (m *master) note(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.err = err
}

// refusal returns the error in a reply, or in that of a command of a transaction.
func refusal(out []byte, exec bool) string { //nolint:revive // the command
	if len(out) > 0 && out[0] == '-' {
		return string(bytes.TrimSpace(out[1:]))
	}
	if !exec {
		return ""
	}
	v, _, err := resp.Parse(out)
	list, ok := v.([]any)
	if err != nil || !ok {
		return "EXEC has not run"
	}
	for _, element := range list {
		if e, failed := element.(resp.Error); failed {
			return e.Error()
		}
	}
	return ""
}

// acknowledge tells the master every second how far the replica is.
func (m *master) acknowledge(conn net.Conn, stop chan struct{}) {
	t := time.NewTicker(ackEvery)
	defer t.Stop()
	for {
		if m.ack(conn) != nil {
			return // reading finds out
		}
		select {
		case <-t.C:
		case <-stop:
			return
		}
	}
}

func (m *master) ack(conn net.Conn) error {
	_, err := conn.Write(resp.AppendCommand(nil, "REPLCONF", "ACK", strconv.FormatInt(m.offset.Load(), 10)))
	return err
}

// repeat runs the commands of the stream until the connection ends.
func (m *master) repeat(ctx context.Context, conn net.Conn, in *bufio.Reader) (err error) {
	var scanner resp.CommandScanner
	buf, from, to := make([]byte, 64<<10), 0, 0
	offset := m.offset.Load()
	defer func() {
		if m.multi >= 0 { // the next connection begins with it
			m.s.discard()
			m.offset.Store(m.multi)
			m.multi, m.parted, m.fields = -1, nil, false
		}
	}()
	for {
		if from == to {
			from, to = 0, 0
		} else if to == len(buf) {
			if from < len(buf)/2 {
				buf = append(buf, make([]byte, len(buf))...)
			}
			to = copy(buf, buf[from:to])
			from = 0
		}
		n, err := in.Read(buf[to:])
		to += n
		for from < to && ctx.Err() == nil {
			used, bad := scanner.Next(buf[from:to])
			if bad != nil {
				return finalError{fmt.Errorf("the stream is broken: %w", bad)}
			}
			if used == 0 {
				break
			}
			args, raw := scanner.Args(), buf[from:from+used]
			switch {
			case len(args) == 0 || is(args[0], "ping"):
				m.pass(raw)
			case is(args[0], "replconf"): // GETACK: the offset in front of it
				if err := m.saved(offset); err != nil {
					return err
				}
				if err := m.ack(conn); err != nil {
					return err
				}
				m.pass(raw)
			default:
				if err := m.step(ctx, raw, args, offset); err != nil {
					return err
				}
			}
			from += used
			offset += int64(used)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if e := m.saved(offset); e != nil {
			return e
		}
		if err != nil {
			return err
		}
	}
}

// saved notes that all before an offset is repeated.
func (m *master) saved(offset int64) error {
	if err := m.s.Sync(); err != nil {
		m.e.replication.abandon() // what is repeated can't be told from what is saved: begin anew
		return err
	}
	m.offset.Store(offset)
	return nil
}

// step repeats a command of the stream, which begins at an offset.
func (m *master) step(ctx context.Context, raw []byte, args [][]byte, offset int64) error {
	if is(args[0], "multi") {
		m.multi = offset
	}
	err := m.do(ctx, raw, args...)
	if err == nil && is(args[0], "exec") {
		m.multi = -1
	}
	return err
}

const errFewReplicas = "NOREPLICAS Not enough good replicas to write."

// readOnly returns why a command may not run because the engine is a replica, "" if it may.
func (s *Session) readOnly(cmd *command) string {
	m := s.e.master.Load()
	switch {
	case m == nil && cmd.flags&flagWrite != 0 && !s.e.loading && !s.e.replication.enough(s.e.clock):
		return errFewReplicas
	case m == nil || s.replays:
		return ""
	case m.loading.Load() && cmd.flags&flag(rediscmd.Loading) == 0:
		return "LOADING redoubt: all keys of the master are on their way"
	case s.e.replication.noStale.Load() && cmd.flags&flag(rediscmd.Stale) == 0 && !m.connected():
		return "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'."
	case cmd.flags&flagWrite != 0 && !s.e.replication.writable.Load():
		return "READONLY You can't write against a read only replica."
	}
	return ""
}

// refusesScript is readOnly for a function, and for a script that says by its first line that it may write. Of other scripts the
// commands are refused.
func (c *call) refusesScript(cmd *command) string {
	e := c.e
	if cmd.flags&flagScript == 0 || c.s.replays || e.master.Load() == nil && e.replication.least.Load() == 0 || strings.HasSuffix(cmd.Name, "_ro") {
		return ""
	}
	writes := false
	if cmd.flags&flagFunction != 0 {
		f := e.functions.find(c.args[1])
		writes = f != nil && !f.readOnly
	} else {
		sc := e.scriptOf(cmd, c.args)
		writes = sc != nil && sc.mayWrite
	}
	switch {
	case !writes:
		return ""
	case e.master.Load() == nil && !e.replication.enough(e.clock):
		return errFewReplicas
	case e.master.Load() != nil && !e.replication.writable.Load():
		return "READONLY Can not run script with write flag on readonly replica."
	}
	return ""
}

// expires reports whether keys expire by themselves: not in a replica, whose master deletes them.
func (c *call) expires() bool { return c.e.master.Load() == nil }

// lag is how long nothing has come, in seconds, -1 without a connection.
func (m *master) lag() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.state != linkConnected && m.state != linkSync {
		return -1
	}
	return max(0, (time.Now().UnixMilli()-m.heard.Load())/1000)
}

// info writes the replica's part of INFO.
func (m *master) info(b *strings.Builder) {
	lag, priority, hidden := m.lag(), m.e.setting("replica-priority"), m.e.setting("replica-announced") == "no"
	r := &m.e.replication
	defer r.info(b, m.e.clock.Now()) // without m.mu
	m.mu.Lock()
	defer m.mu.Unlock()
	up, syncing, readOnly, announced := "down", 0, 1, 1
	if hidden {
		announced = 0
	}
	if r.writable.Load() {
		readOnly = 0
	}
	if m.state == linkConnected {
		up = "up"
	}
	if m.loading.Load() {
		syncing = 1
	}
	fmt.Fprintf(b, "role:slave\r\nmaster_host:%s\r\nmaster_port:%s\r\nmaster_link_status:%s\r\nmaster_last_io_seconds_ago:%d\r\nmaster_sync_in_progress:%d\r\n", m.host, m.port, up, lag, syncing)
	if m.err != nil {
		fmt.Fprintf(b, "master_link_error:%s\r\n", strings.NewReplacer("\r", " ", "\n", " ").Replace(m.err.Error()))
	}
	if syncing == 1 {
		fmt.Fprintf(b, "master_sync_read_bytes:%d\r\n", m.read.Load())
	}
	if up == "down" {
		fmt.Fprintf(b, "master_link_down_since_seconds:%d\r\nmaster_link_final:%t\r\n", int64(time.Since(m.since).Seconds()), m.failed)
	}
	fmt.Fprintf(b, "slave_read_repl_offset:%d\r\nslave_repl_offset:%d\r\nslave_priority:%s\r\nslave_read_only:%d\r\nreplica_announced:%d\r\n", m.offset.Load(), m.offset.Load(), priority, readOnly, announced)
}
