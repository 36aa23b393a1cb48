package transfer

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/redoubt-go/redoubt/internal/resp"
)

// A Link makes one server the replica of another, and later its successor. Both are a Redis, a Valkey or an engine.
// Nothing passes through this process: the target connects to the source by itself.
type Link struct {
	from, to       *Server
	host, port     string // of the source, as the target reaches it
	user, password string // of the source
	tls            bool
	reopen         Reopen
	before         map[string]string // settings of the source that refuse writes, as they were
}

// A Reopen connects to the source, or to the target, once more: the other connection may be lost.
type Reopen func(ctx context.Context, source bool) (*Server, error)

// A LinkState says how far the replica is.
type LinkState struct {
	Connected   bool
	Keys, Total int64  // at the target and at the source
	At          int64  // offset in the stream of the source
	Behind      int64  // bytes of the stream that the target has not repeated yet
	Err         string // why there is no connection, as far as the target tells
	Final       bool   // the target does not try again
}

// Compared says what a comparison of both sides has found.
type Compared struct {
	Keys    int64
	Changed int64    // of these, so often that they could not be compared
	Differs []string // keys, with their database in front
}

// NewLink prepares a link. addr is the host and port of the source.
func NewLink(from, to *Server, addr, user, password string, tls bool, reopen Reopen) (*Link, error) { //nolint:revive // tls is a property of addr
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	return &Link{from: from, to: to, host: host, port: port, user: user, password: password, tls: tls, reopen: reopen}, nil
}

// Following reports whether the target follows the source already. The error says that it follows another server.
func (l *Link) Following(ctx context.Context) (bool, error) {
	info, err := l.to.info(ctx)
	if err != nil {
		return false, err
	}
	switch {
	case info["role"] == "master", info["master_link_final"] == "true":
		return false, nil
	case info["master_host"] == l.host && info["master_port"] == l.port:
		return true, nil
	case info["role"] == "slave":
		return false, fmt.Errorf("%s follows another server, %s", l.to.Name(), net.JoinHostPort(info["master_host"], info["master_port"]))
	}
	return false, fmt.Errorf("%s is a proxy, which can't follow a server: name what is behind it", l.to.Name())
}

// A NotEmptyError says that a server has keys, and would lose them as a replica.
type NotEmptyError struct {
	Name string
	Keys int64
}

func (e *NotEmptyError) Error() string {
	return fmt.Sprintf("%s is not empty (keys: %d), and a replica loses what it has", e.Name, e.Keys)
}

// Begin makes the target a replica. All its keys are deleted. Without replace, it is a [NotEmptyError] if it has any.
func (l *Link) Begin(ctx context.Context, replace bool) error { //nolint:revive // an option
	if info, err := l.to.info(ctx); err != nil {
		return err
	} else if n := keysIn(info); n > 0 && !replace {
		return &NotEmptyError{l.to.Name(), n}
	}
	for _, set := range [][2]string{{"masteruser", l.user}, {"masterauth", l.password}, {"tls-replication", map[bool]string{true: "yes", false: "no"}[l.tls]}} {
		if _, err := l.to.c.do(ctx, "CONFIG", "SET", set[0], set[1]); err != nil {
			if set[0] == "tls-replication" && !l.tls { // a server without TLS does not know it
				continue
			}
			return err
		}
	}
	_, err := l.to.c.do(ctx, "REPLICAOF", l.host, l.port)
	return err
}

// State asks both sides how far the target is.
func (l *Link) State(ctx context.Context) (LinkState, error) {
	to, err := l.to.info(ctx)
	if err != nil {
		return LinkState{}, err
	}
	from, err := l.from.info(ctx)
	if err != nil {
		return LinkState{}, err
	}
	end, _ := strconv.ParseInt(from["master_repl_offset"], 10, 64)
	at, _ := strconv.ParseInt(to["slave_repl_offset"], 10, 64)
	return LinkState{
		Connected: to["master_link_status"] == "up" && to["master_replid"] == from["master_replid"], Keys: keysIn(to), Total: keysIn(from), At: at, Behind: max(0, end-at),
		Err: to["master_link_error"], Final: to["master_link_final"] == "true",
	}, nil
}

// Await waits until the target has connected and is at most a MiB behind. It calls progress ten times a second.
func (l *Link) Await(ctx context.Context, progress func(LinkState)) (LinkState, error) {
	return l.await(ctx, progress, func(s LinkState) bool { return s.Connected && s.Behind < 1<<20 })
}

// patience is how long the target may fail to connect, again and again.
const patience = 10 * time.Second

func (l *Link) await(ctx context.Context, progress func(LinkState), ok func(LinkState) bool) (LinkState, error) {
	t := time.NewTicker(100 * time.Millisecond)
	defer t.Stop()
	failing := time.Now() // since when the target has had an error
	for {
		s, err := l.State(ctx)
		if s.Err == "" {
			failing = time.Now()
		}
		switch {
		case err != nil:
			return s, err
		case time.Since(failing) > patience:
			return s, fmt.Errorf("%s does not get to %s, and goes on trying: %s", l.to.Name(), l.from.Name(), s.Err)
		case s.Final:
			return s, fmt.Errorf("%s can't follow %s: %s", l.to.Name(), l.from.Name(), s.Err)
		}
		if progress(s); ok(s) {
			return s, nil
		}
		select {
		case <-t.C:
		case <-ctx.Done():
			return s, ctx.Err()
		}
	}
}

// Compare compares some keys, chosen at random at the source, on both sides. Clients may write meanwhile: a key
// differs if both sides have values that don't change, and these are not the same.
func (l *Link) Compare(ctx context.Context, sample int) (Compared, error) {
	var result Compared
	info, err := l.from.info(ctx)
	if err != nil {
		return result, err
	}
	total := keysIn(info)
	for db, n := range databases(info) {
		want := int(min(int64(sample), max(1, int64(sample)*n/max(1, total))))
		keys, err := l.sample(ctx, db, want)
		if err != nil {
			return result, err
		}
		result.Keys += int64(len(keys))
		for look := 1; len(keys) > 0; look++ {
			differ, changed, err := l.look(ctx, db, keys)
			if err != nil {
				return result, err
			}
			if keys = append(differ, changed...); look == looks {
				result.Changed += int64(len(changed))
				for _, k := range differ {
					result.Differs = append(result.Differs, fmt.Sprintf("%d %.100q", db, k))
				}
				break
			}
		}
	}
	slices.Sort(result.Differs)
	return result, nil
}

// looks is how often a key that changes is compared.
const looks = 5

func (l *Link) sample(ctx context.Context, db, n int) ([]string, error) {
	if err := l.from.selectDB(ctx, db); err != nil {
		return nil, err
	}
	found := map[string]bool{}
	for range n {
		add(l.from.c, "RANDOMKEY")
	}
	err := l.from.c.flush(ctx, func(_ int, reply any) error {
		switch r := reply.(type) {
		case string:
			found[r] = true
		case resp.Error:
			return r
		}
		return nil
	})
	keys := make([]string, 0, len(found))
	for k := range found {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys, err
}

// look compares keys once: at the source, at the target, and again at both. The target has all that the source had when
// it was read before. A key that is not the same in both readings of a side has changed.
func (l *Link) look(ctx context.Context, db int, keys []string) (differ, changed []string, err error) {
	var here, there [2][]string
	for i := range here {
		if here[i], err = l.from.described(ctx, db, keys, l.from.times && l.to.times); err != nil {
			return nil, nil, err
		}
		if err := l.catchUp(ctx); err != nil {
			return nil, nil, err
		}
		if there[i], err = l.to.described(ctx, db, keys, l.from.times && l.to.times); err != nil {
			return nil, nil, err
		}
	}
	for i, k := range keys {
		switch {
		case here[0][i] != here[1][i] || there[0][i] != there[1][i]:
			changed = append(changed, k)
		case here[0][i] != there[0][i]:
			differ = append(differ, k)
		}
	}
	return differ, changed, nil
}

// catchUp waits until the target has all that the source has now.
func (l *Link) catchUp(ctx context.Context) error {
	info, err := l.from.info(ctx)
	if err != nil {
		return err
	}
	end, _ := strconv.ParseInt(info["master_repl_offset"], 10, 64)
	_, err = l.await(ctx, func(LinkState) {}, func(s LinkState) bool { return s.Connected && s.At >= end })
	return err
}

// Of a key with more elements, or a string with more bytes, only their number is compared.
const (
	mostCompared      = 10_000
	mostComparedBytes = 1 << 20
)

// described describes the values of keys, in a form that is equal for equal values.
func (s *Server) described(ctx context.Context, db int, keys []string, times bool) ([]string, error) {
	if err := s.selectDB(ctx, db); err != nil {
		return nil, err
	}
	types := make([]string, len(keys))
	for _, k := range keys {
		add(s.c, "TYPE", k)
	}
	if err := s.c.flush(ctx, func(i int, reply any) error {
		types[i] = fmt.Sprint(reply)
		return nil
	}); err != nil {
		return nil, err
	}
	length := map[string]string{"string": "STRLEN", "list": "LLEN", "set": "SCARD", "zset": "ZCARD", "hash": "HLEN", "stream": "XLEN"}
	lengths := make([]int64, len(keys))
	for i, k := range keys {
		if length[types[i]] == "" {
			add(s.c, "PING")
			continue
		}
		add(s.c, length[types[i]], k)
	}
	if err := s.c.flush(ctx, func(i int, reply any) error {
		lengths[i], _ = reply.(int64)
		return nil
	}); err != nil {
		return nil, err
	}
	out := make([]string, len(keys))
	for i, k := range keys {
		if times {
			add(s.c, "PEXPIRETIME", k)
		} else {
			add(s.c, "PING")
		}
		switch kind := types[i]; {
		case kind != "string" && lengths[i] > mostCompared, lengths[i] > mostComparedBytes, length[kind] == "":
			add(s.c, "PING")
		case kind == "string":
			add(s.c, "GET", k)
		case kind == "list":
			add(s.c, "LRANGE", k, "0", "-1")
		case kind == "set":
			add(s.c, "SMEMBERS", k)
		case kind == "zset":
			add(s.c, "ZRANGE", k, "0", "-1", "WITHSCORES")
		case kind == "hash":
			add(s.c, "HGETALL", k)
		default:
			add(s.c, "XRANGE", k, "-", "+")
		}
	}
	err := s.c.flush(ctx, func(i int, reply any) error {
		if list, ok := reply.([]any); ok {
			reply = ordered(types[i/2], list)
		}
		out[i/2] += fmt.Sprintf(" %s %d %q", types[i/2], lengths[i/2], fmt.Sprint(reply))
		return nil
	})
	return out, err
}

// ordered puts the elements of a set or a hash in an order.
func ordered(kind string, list []any) any {
	step := map[string]int{"set": 1, "hash": 2}[kind]
	if step == 0 {
		return list
	}
	var parts []string
	for at := 0; at+step <= len(list); at += step {
		parts = append(parts, fmt.Sprintf("%q", fmt.Sprint(list[at:at+step]...)))
	}
	sort.Strings(parts)
	return parts
}

// switchWithin bounds the time in which nobody can write.
const switchWithin = 30 * time.Second

// Switch makes the target the master: the source refuses writes from now on, the target repeats the rest of the
// stream, both sides are compared, and then the target takes writes. If anything fails before that, the source takes
// writes again and the target goes on following. pause is how long nobody could write. When ctx ends, the step at hand
// ends first.
func (l *Link) Switch(ctx context.Context, sample int) (c Compared, pause time.Duration, err error) {
	if c, err = l.Compare(ctx, sample); err != nil || len(c.Differs) > 0 {
		return c, 0, err
	}
	if info, err := l.from.info(ctx); err != nil {
		return c, 0, err
	} else if info["role"] != "master" {
		return c, 0, fmt.Errorf("%s is a replica itself, and its master goes on writing: follow that server", l.from.Name())
	}
	began := time.Now()
	steps, cancel := context.WithTimeout(context.WithoutCancel(ctx), switchWithin)
	defer cancel()
	undo := true
	defer func() {
		if undo && (err != nil || len(c.Differs) > 0) {
			err = errors.Join(err, l.allowWrites(context.WithoutCancel(ctx)))
		}
	}()
	if err := l.refuseWrites(steps); err != nil {
		return c, 0, err
	}
	if _, err := l.await(steps, func(LinkState) {}, func(s LinkState) bool { return s.Connected && s.Behind == 0 }); err != nil {
		return c, 0, fmt.Errorf("%s does not catch up: %w", l.to.Name(), err)
	}
	if c, err = l.Compare(steps, sample); err != nil || len(c.Differs) > 0 {
		return c, 0, err
	}
	if err := ctx.Err(); err != nil {
		return c, 0, err
	}
	if _, err = l.to.c.do(steps, "REPLICAOF", "NO", "ONE"); err == nil {
		undo = false
		return c, time.Since(began), l.forgetPassword(steps)
	}
	// It may have been done all the same. Both sides must never take writes.
	asking, stop := context.WithTimeout(context.WithoutCancel(ctx), answerWithin)
	defer stop()
	to, lost := l.reopen(asking, false)
	var info map[string]string
	if lost == nil {
		defer to.Close()
		info, lost = to.info(asking)
	}
	switch {
	case lost != nil:
		undo = false
		return c, 0, fmt.Errorf("REPLICAOF NO ONE got no answer (%w), and %s can't be asked (%w): %s refuses writes until that is known. "+
			"If %s is still a replica, CONFIG SET %s %s at %s allows writes there", err, l.to.Name(), lost, l.from.Name(), l.to.Name(), minReplicas, l.before[minReplicas], l.from.Name())
	case info["role"] == "master":
		undo = false
		return c, time.Since(began), nil
	}
	return c, 0, err
}

// forgetPassword removes the source's password from the target.
func (l *Link) forgetPassword(ctx context.Context) error {
	if l.password == "" {
		return nil
	}
	if _, err := l.to.c.do(ctx, "CONFIG", "SET", "masterauth", ""); err != nil {
		return fmt.Errorf("%s takes writes, but keeps the password of %s: %w", l.to.Name(), l.from.Name(), err)
	}
	return nil
}

const (
	minReplicas = "min-replicas-to-write"
	maxLag      = "min-replicas-max-lag"
	neverEnough = "2147483647"
)

// refuseWrites has the source answer writes with NOREPLICAS.
func (l *Link) refuseWrites(ctx context.Context) error {
	before := map[string]string{}
	for _, name := range []string{minReplicas, maxLag} {
		reply, err := l.from.c.do(ctx, "CONFIG", "GET", name)
		if err != nil {
			return err
		}
		pair, _ := reply.([]any)
		if len(pair) != 2 {
			return fmt.Errorf("%s has no setting %s, so it can't be told to refuse writes", l.from.Name(), name)
		}
		before[name], _ = pair[1].(string)
	}
	if before[minReplicas] == neverEnough { // left by a switch that was killed
		before[minReplicas] = "0"
	}
	l.before = before
	if before[maxLag] == "0" { // which would allow writes
		if _, err := l.from.c.do(ctx, "CONFIG", "SET", maxLag, "10"); err != nil {
			return err
		}
	}
	_, err := l.from.c.do(ctx, "CONFIG", "SET", minReplicas, neverEnough)
	return err
}

// allowWrites undoes refuseWrites, on a connection of its own: the other may be lost.
func (l *Link) allowWrites(ctx context.Context) error {
	if l.before == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	from, err := l.reopen(ctx, true)
	if err == nil {
		defer from.Close()
	}
	for _, name := range []string{minReplicas, maxLag} {
		if err == nil {
			_, err = from.c.do(ctx, "CONFIG", "SET", name, l.before[name])
		}
	}
	if err != nil {
		return fmt.Errorf("%s still refuses writes: CONFIG SET %s %s allows them: %w", l.from.Name(), minReplicas, l.before[minReplicas], err)
	}
	return nil
}

// Before is what min-replicas-to-write of the source was before [Link.Switch].
func (l *Link) Before() string { return l.before[minReplicas] }

// info returns the fields of INFO.
func (s *Server) info(ctx context.Context) (map[string]string, error) {
	text, err := s.c.do(ctx, "INFO")
	if err != nil {
		return nil, err
	}
	fields := map[string]string{}
	all, _ := text.(string)
	for line := range strings.Lines(all) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			fields[name] = value
		}
	}
	return fields, nil
}

// database reads a line of INFO's section Keyspace: the database, and how many keys it has. keys is -1 if the line has no
// number.
func database(name, value string) (db int, keys int64, ok bool) {
	db, err := strconv.Atoi(strings.TrimPrefix(name, "db"))
	if err != nil || !strings.HasPrefix(name, "db") {
		return 0, 0, false
	}
	count, _, _ := strings.Cut(strings.TrimPrefix(value, "keys="), ",")
	if keys, err = strconv.ParseInt(count, 10, 64); err != nil {
		keys = -1
	}
	return db, keys, true
}

// databases returns the number of keys of each database.
func databases(info map[string]string) map[int]int64 {
	all := map[int]int64{}
	for name, value := range info {
		if db, keys, ok := database(name, value); ok && keys >= 0 {
			all[db] = keys
		}
	}
	return all
}

func keysIn(info map[string]string) (n int64) {
	for _, keys := range databases(info) {
		n += keys
	}
	return n
}
