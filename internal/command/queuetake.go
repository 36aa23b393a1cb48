package command

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/resp"
	wire "github.com/redoubt-go/redoubt/internal/wire/queue"
)

// A take is the arguments of QUEUE.TAKE.
type take struct {
	keys    wire.Keys
	count   *queueCounter
	pump    wire.Pump
	block   time.Duration // 0: for ever
	blocks  bool
	secret  bool // the server named the take: no client knows it before the reply
	headers bool // the reply has headers
}

func planTake(env *Env, args [][]byte) Plan {
	t := take{secret: true}
	count, fault := milliseconds("count", args[2], 1, wire.MaxSettle)
	if fault != "" {
		return Plan{Err: fault}
	}
	lease, fault := milliseconds("lease_ms", args[3], 1, maxQueueTime)
	if fault != "" {
		return Plan{Err: fault}
	}
	id := ""
	for rest := args[4:]; len(rest) > 0; rest = rest[1:] {
		switch {
		case bytes.EqualFold(rest[0], []byte("WITHHEADERS")) && !t.headers:
			t.headers = true
			continue
		case len(rest) == 1:
			return Plan{Err: syntaxAt(rest[0])}
		case bytes.EqualFold(rest[0], []byte("BLOCK")) && !t.blocks:
			if t.block, fault = blockTime(rest[1]); fault != "" {
				return Plan{Err: fault}
			}
			t.blocks = true
		case bytes.EqualFold(rest[0], []byte("ID")) && t.secret:
			if len(rest[1]) < 1 || len(rest[1]) > maxID {
				return Plan{Err: fmt.Sprintf("ERR redoubt: ID has %d bytes; want 1 to %d", len(rest[1]), maxID)}
			}
			id, t.secret = string(rest[1]), false
		default:
			return Plan{Err: syntaxAt(rest[0])}
		}
		rest = rest[1:]
	}
	var err error
	if t.keys, err = wire.KeysOf(env.Client, string(args[1])); err != nil {
		return refusal(err)
	}
	t.count = env.counts.queues.of(string(args[1]))
	t.pump = wire.Pump{Take: wire.NewTake(), N: int(count), Lease: time.Duration(lease) * time.Millisecond}
	if !t.secret {
		t.pump.Consumer, t.pump.Repeats = wire.ShortHash(id), true
	}
	now := func() Plan { return env.takeNow(t) }
	if !t.blocks {
		return now()
	}
	return Plan{Instead: now, Wait: func(ctx context.Context) Outcome { return env.take(ctx, t) }}
}

// takeNow plans a take that does not wait, as one script.
func (env *Env) takeNow(t take) Plan {
	if t.secret {
		t.pump.Consumer = noConsumer // the command is sent once
	}
	cmd := wire.PumpCmd(t.keys, t.pump)
	p := Plan{Cmd: &cmd, Translate: func(dst []byte, p resp.Protocol, r redoubt.Reply) []byte {
		pumped, err := wire.ReadPump(r)
		if err != nil {
			return appendError(dst, err)
		}
		t.count.took(&pumped)
		env.wakers.expect(t.keys, pumped.Next)
		if bad := pumped.KillUnreadable(); len(bad) > 0 {
			env.Client.Go(func() { env.giveBack(context.Background(), t.keys, bad) })
		}
		return t.append(dst, p, pumped.Taken)
	}}
	if t.secret {
		p.Undo = func(ctx context.Context, r redoubt.Reply) {
			if pumped, err := wire.ReadPump(r); err == nil {
				env.giveBack(ctx, t.keys, append(pumped.KillUnreadable(), backs(pumped.Taken)...))
			}
		}
	}
	return p
}

// append appends the reply.
func (t *take) append(dst []byte, p resp.Protocol, taken []wire.Taken) []byte {
	fields := 4
	if t.headers {
		fields = 5
	}
	dst = resp.AppendArray(dst, len(taken))
	for _, m := range taken {
		dst = resp.AppendArray(dst, fields)
		dst = resp.AppendBulk(dst, m.Receipt)
		dst = resp.AppendBulk(dst, m.ID)
		dst = resp.AppendInt(dst, int64(m.Failures)+1)
		dst = resp.AppendBulk(dst, m.Payload)
		if t.headers {
			dst = appendHeaders(dst, p, m.Headers)
		}
	}
	return dst
}

// appendHeaders appends a map of headers, sorted by name.
func appendHeaders(dst []byte, p resp.Protocol, headers map[string]string) []byte {
	dst = resp.AppendMap(dst, p, len(headers))
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		dst = resp.AppendBulk(resp.AppendBulk(dst, name), headers[name])
	}
	return dst
}

// take waits for messages on behalf of a client.
func (env *Env) take(ctx context.Context, t take) Outcome {
	taken, err := env.await(ctx, t)
	if errors.Is(err, ErrUnblocked) {
		return unblockedOutcome()
	}
	if err != nil {
		if ctx.Err() != nil {
			return Outcome{Append: func(dst []byte, _ resp.Protocol) []byte {
				return resp.AppendError(dst, "ERR redoubt: the server is shutting down")
			}}
		}
		return Outcome{Append: func(dst []byte, _ resp.Protocol) []byte { return appendError(dst, err) }}
	}
	o := Outcome{Append: func(dst []byte, p resp.Protocol) []byte { return t.append(dst, p, taken) }}
	if t.secret {
		o.Undo = func() { env.giveBack(context.WithoutCancel(ctx), t.keys, backs(taken)) }
	}
	return o
}

func (env *Env) await(ctx context.Context, t take) ([]wire.Taken, error) {
	var over <-chan time.Time
	if t.block > 0 {
		timer := time.NewTimer(t.block)
		defer timer.Stop()
		over = timer.C
	}
	p, err := env.pump(ctx, t)
	if err != nil {
		return nil, err
	}
	if len(p.Taken) > 0 {
		env.wakers.expect(t.keys, p.Next)
		return p.Taken, nil
	}
	e := env.wakers.add(env.Client, t.keys, t.pump.Lease)
	e.expect(p.Next)
	unused := false
	defer func() { e.leave(unused) }()
	waiting := Waiting(ctx)
	for {
		select {
		case <-e.c:
		case <-over:
			return nil, nil
		case <-waiting.Done():
			if errors.Is(Unblocked(ctx), ErrTimedOut) {
				return nil, nil
			}
			return nil, context.Cause(waiting)
		}
		e.read()
		if p, err = env.pump(ctx, t); err != nil {
			unused = true
			return nil, err
		}
		// Also after a successful take: other clients wait for the next due message, and
		// for the end of this lease.
		e.expect(p.Next)
		if len(p.Taken) > 0 {
			return p.Taken, nil
		}
	}
}

// pump takes messages. It does not stop when the client disconnects, so that the messages can be
// handed back.
func (env *Env) pump(ctx context.Context, t take) (wire.Pumped, error) {
	if err := ctx.Err(); err != nil {
		return wire.Pumped{}, err
	}
	ctx, stop := outliving(ctx, undoTimeout)
	defer stop()
	name := ""
	if t.secret {
		name = env.takers.borrow()
		t.pump.Consumer = name
	}
	p, err := wire.Take(ctx, env.Client, t.keys, t.pump)
	if err == nil {
		t.count.took(&p)
		if t.secret {
			env.takers.giveBack(name)
		}
	}
	return p, err
}

// takers are names of consumers, each used by one pump at a time. The server keeps a key for each
// name, with its last take.
type takers struct {
	mu    sync.Mutex
	of    string // names this process; mu guards this and the fields below
	names int    // how many were made
	free  []string
}

func (ts *takers) borrow() string {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if last := len(ts.free) - 1; last >= 0 {
		name := ts.free[last]
		ts.free = ts.free[:last]
		return name
	}
	if ts.of == "" {
		ts.of = wire.NewTake()
	}
	ts.names++
	return ts.of + strconv.Itoa(ts.names)
}

// giveBack returns a name. Never return one whose pump may still arrive: it would replace the
// record of the next take.
func (ts *takers) giveBack(name string) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	ts.free = append(ts.free, name)
}
