package torture

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redoubt-go/redoubt/internal/resp"
	wire "github.com/redoubt-go/redoubt/internal/wire/stock"
)

// manyAttempts is more than the faults of a round use up.
const manyAttempts = 60000

// A line is the door of programs in any language: commands to `redoubt serve`. It sends no command
// twice, except an acquire with the same ID.
type line struct {
	addr string

	mu   sync.Mutex
	idle []net.Conn
}

func (l *line) resends() bool { return false }

func (l *line) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.idle {
		_ = c.Close()
	}
	l.idle = nil
}

// answerWithin is how long a client waits for a reply, beyond the time for which the command blocks.
const answerWithin = 2 * time.Second

// do sends a command. Of an error reply it says errNever if the reply does.
func (l *line) do(ctx context.Context, block time.Duration, args ...string) (any, error) {
	conn, err := l.take(ctx)
	if err != nil {
		return nil, errors.Join(errNever, err)
	}
	end := time.Now().Add(block + answerWithin)
	if d, ok := ctx.Deadline(); ok && d.Before(end) {
		end = d
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	v, err := exchange(conn, end, args)
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	l.mu.Lock()
	l.idle = append(l.idle, conn)
	l.mu.Unlock()
	if refused, ok := v.(resp.Error); ok {
		text := string(refused)
		if strings.Contains(text, "was not sent") || strings.Contains(text, "is unreachable") && !strings.Contains(text, "may have run") {
			return nil, errors.Join(errNever, refused)
		}
		return nil, refused
	}
	return v, nil
}

func (l *line) take(ctx context.Context) (net.Conn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := len(l.idle); n > 0 {
		conn := l.idle[n-1]
		l.idle = l.idle[:n-1]
		return conn, nil
	}
	return (&net.Dialer{Timeout: answerWithin}).DialContext(ctx, "tcp", l.addr)
}

func exchange(conn net.Conn, end time.Time, args []string) (any, error) {
	if err := conn.SetDeadline(end); err != nil {
		return nil, err
	}
	if _, err := conn.Write(resp.AppendCommand(nil, args...)); err != nil {
		return nil, err
	}
	var scan resp.ReplyScanner
	var buf []byte
	part := make([]byte, 4096)
	for {
		n, err := conn.Read(part)
		if err != nil {
			return nil, err
		}
		buf = append(buf, part[:n]...)
		if size, err := scan.Next(buf); err != nil {
			return nil, err
		} else if size > 0 {
			v, _, err := resp.Parse(buf)
			return v, err
		}
	}
}

// number sends a command whose reply is an integer.
func (l *line) number(ctx context.Context, args ...string) (int64, error) {
	v, err := l.do(ctx, 0, args...)
	if err != nil {
		return 0, err
	}
	n, ok := v.(int64)
	if !ok {
		return 0, fmt.Errorf("the reply of %s is %v; want an integer", args[0], v)
	}
	return n, nil
}

// fields sends a command whose reply is a map.
func (l *line) fields(ctx context.Context, args ...string) (map[string]any, error) {
	v, err := l.do(ctx, 0, args...)
	if err != nil {
		return nil, err
	}
	all, m := array(v), map[string]any{}
	for i := 0; i+1 < len(all); i += 2 {
		m[fmt.Sprint(all[i])] = all[i+1]
	}
	return m, nil
}

func array(v any) []any {
	all, _ := v.([]any)
	return all
}

func integer(v any) int64 {
	n, _ := v.(int64)
	return n
}

func ms(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// family begins the names of the commands of a primitive.
func family(primitive string) string {
	if primitive == semaphores {
		return "SEM"
	}
	return "LOCK"
}

func (l *line) acquire(ctx context.Context, primitive, name string, wait bool) (*holding, error) {
	id, block := newID(), time.Duration(0)
	once := []string{family(primitive) + ".ACQUIRE", name}
	if primitive == semaphores {
		once = append(once, strconv.Itoa(semaphoreLimit))
	}
	once = append(once, ms(lockTTL), "ID", id)
	if primitive == fair {
		once = append(once, "FAIR")
	}
	args := once
	if wait {
		block = patience
		args = append(slices.Clone(once), "BLOCK", ms(block))
	}
	deadline := time.Now().Add(lockTTL - lockTTL/100)
	v, err := l.do(ctx, block, args...)
	if err != nil && !never(err) { // the same ID gives the same answer
		v, err = l.do(ctx, 0, once...)
		block = 0
	}
	got := array(v)
	if err != nil || len(got) < 3 {
		return nil, err
	}
	extend := func(ctx context.Context) error {
		end := time.Now().Add(lockTTL - lockTTL/100)
		n, err := l.number(ctx, family(primitive)+".EXTEND", name, id, ms(lockTTL))
		if err == nil && n == 0 {
			err = errLost
		}
		if err == nil {
			deadline = end
		}
		return err
	}
	if block > 0 { // It may have been acquired at any time of the call. The extension says until when it is valid.
		if err := extend(ctx); err != nil {
			return nil, err
		}
	}
	return &holding{
		token: integer(got[1]), deadline: func() time.Time { return deadline }, extend: extend,
		release: func(ctx context.Context) error {
			_, err := l.number(ctx, family(primitive)+".RELEASE", name, id)
			return err
		},
	}, nil
}

var errLost = errors.New("the lease is over")

func (l *line) holder(ctx context.Context, name string) (token, waiters int64, err error) {
	info, err := l.fields(ctx, "LOCK.INFO", name)
	if err != nil {
		return 0, 0, err
	}
	waiters = integer(info["waiters"])
	holders := array(info["holders"])
	if len(holders) == 0 {
		return 0, waiters, nil
	}
	first := array(holders[0])
	for i := 0; i+1 < len(first); i += 2 {
		if first[i] == "fence" {
			return integer(first[i+1]), waiters, nil
		}
	}
	return 0, 0, fmt.Errorf("a holder without a token: %v", first)
}

func (l *line) write(ctx context.Context, name string, token, value int64) (bool, int64, error) {
	_, err := l.do(ctx, 0, "FENCE.DO", name, strconv.FormatInt(token, 10), "SET", registerKey(name), strconv.FormatInt(value, 10))
	if refused, ok := errors.AsType[resp.Error](err); ok && refused.Code() == "STALE" {
		var largest int64
		text := string(refused)
		_, text, _ = strings.Cut(text, ", and ")
		if _, err := fmt.Sscanf(text, "%d", &largest); err != nil {
			return false, 0, fmt.Errorf("%w: %w", refused, err)
		}
		return false, largest, nil
	}
	return true, 0, err
}

func (l *line) read(ctx context.Context, name string) (int64, error) {
	v, err := l.do(ctx, 0, "GET", registerKey(name))
	if err != nil || v == nil {
		return 0, err
	}
	return strconv.ParseInt(fmt.Sprint(v), 10, 64)
}

func (l *line) total(ctx context.Context, name string, n int64) (int64, error) {
	return l.number(ctx, "STOCK.SET", name, strconv.FormatInt(n, 10))
}

func (l *line) reserve(ctx context.Context, name, id string, n int64) (wire.Status, error) {
	v, err := l.do(ctx, 0, "STOCK.RESERVE", name, strconv.FormatInt(n, 10), ms(stockTTL), "ID", id)
	if err != nil || v == nil {
		return wire.None, err
	}
	return wire.Reserved, nil
}

func (l *line) commit(ctx context.Context, name, id string) (wire.Status, error) {
	n, err := l.number(ctx, "STOCK.COMMIT", name, id)
	return map[int64]wire.Status{1: wire.Committed, 0: wire.Expired, -1: wire.Cancelled, -2: wire.None}[n], err
}

func (l *line) cancel(ctx context.Context, name, id string) (wire.Status, error) {
	n, err := l.number(ctx, "STOCK.CANCEL", name, id)
	return map[int64]wire.Status{1: wire.Cancelled, 0: wire.Expired, -1: wire.Committed, -2: wire.None}[n], err
}

func (l *line) count(ctx context.Context, name string) (int64, int64, error) {
	info, err := l.fields(ctx, "STOCK.INFO", name)
	return integer(info["available"]), integer(info["sold"]), err
}

func (l *line) ask(ctx context.Context, name string) (bool, error) {
	v, err := l.do(ctx, 0, "LIMIT.TAKE", name, "1", strconv.Itoa(limitRate), "1000", strconv.Itoa(limitBurst))
	if err != nil {
		return false, err
	}
	return len(array(v)) > 0 && array(v)[0] == int64(1), nil
}

func (l *line) put(ctx context.Context, name, id string) error {
	_, err := l.do(ctx, 0, "QUEUE.PUT", name, id, "ID", id, "ATTEMPTS", strconv.Itoa(manyAttempts))
	return err
}

func (l *line) consume(ctx context.Context, w *worker, name string) {
	rng := w.random(queues)
	for ctx.Err() == nil {
		got, err := l.taken(ctx, w.pen, name, 300*time.Millisecond)
		if err != nil {
			w.failed(ctx, queues, err)
			continue
		}
		for _, m := range got {
			switch rng.IntN(10) {
			case 0: // leaves it to the end of its lease
			case 1:
				e := w.pen.begin(event{Primitive: queues, Name: name, What: returned, ID: m.id, M: m.take})
				_, err := l.number(ctx, "QUEUE.NACK", name, m.receipt, "DELAY", "0")
				w.pen.end(e, err)
			default:
				w.pause(ctx, rng, 10*time.Millisecond)
				if l.ack(ctx, w.pen, name, m) == nil {
					w.worked(queues)
				}
			}
		}
		if len(got) == 0 {
			w.worked(queues)
		}
	}
}

// A message is what a consumer took.
type message struct {
	id, receipt string
	take        int64 // a number of the take, within the worker
}

// taken takes messages, and writes them down.
func (l *line) taken(ctx context.Context, p *pen, name string, block time.Duration) (got []message, err error) {
	call := now()
	v, err := l.do(ctx, block, "QUEUE.TAKE", name, "4", ms(queueLease), "BLOCK", ms(block))
	if err != nil {
		return nil, err
	}
	ret := now()
	for _, one := range array(v) {
		m := message{receipt: fmt.Sprint(array(one)[0]), id: fmt.Sprint(array(one)[1]), take: ret}
		p.note(event{Primitive: queues, Name: name, What: took, ID: m.id, M: m.take, Call: call, Return: ret, Until: call + int64(queueLease)})
		got = append(got, m)
	}
	return got, nil
}

// ack acknowledges a message, and writes it down.
func (l *line) ack(ctx context.Context, p *pen, name string, m message) error {
	e := p.begin(event{Primitive: queues, Name: name, What: acked, ID: m.id, M: m.take})
	n, err := l.number(ctx, "QUEUE.ACK", name, m.receipt)
	e.OK = n == 1
	p.end(e, err)
	return err
}

func (l *line) kinds() []string { return []string{aField, aBit, anItem, anElement} }

func (l *line) add(ctx context.Context, kind, name string, n int64) error {
	text := strconv.FormatInt(n, 10)
	_, err := l.do(ctx, 0, map[string][]string{
		aField:    {"TTLHASH.SET", name, text, text, "3600000"},
		aBit:      {"SETBIT", name, text, "1"},
		anItem:    {"BF.ADD", name, text},
		anElement: {"RPUSH", name, text},
	}[kind]...)
	return err
}

func (l *line) has(ctx context.Context, kind, name string, n int64) (bool, error) {
	text := strconv.FormatInt(n, 10)
	v, err := l.do(ctx, 0, map[string][]string{
		aField:    {"TTLHASH.GET", name, text},
		aBit:      {"GETBIT", name, text},
		anItem:    {"BF.EXISTS", name, text},
		anElement: {"LPOS", name, text, "COUNT", "0"},
	}[kind]...)
	if kind == anElement {
		return len(array(v)) == 1, err // It was sent once, and is there once.
	}
	return v == text || kind != aField && v == int64(1), err
}
