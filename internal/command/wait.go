package command

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/geo"
	"github.com/redoubt-go/redoubt/internal/resp"
	wire "github.com/redoubt-go/redoubt/internal/wire/bloom"
	lockwire "github.com/redoubt-go/redoubt/internal/wire/lock"
	ratelimitwire "github.com/redoubt-go/redoubt/internal/wire/ratelimit"
	ttlhashwire "github.com/redoubt-go/redoubt/internal/wire/ttlhash"
	"github.com/redoubt-go/redoubt/lock"
)

// NewEnv returns an Env on client.
func NewEnv(client *redoubt.Client) (*Env, error) {
	locks, err := lock.NewRWMutex(client, lock.RWMutexOptions{NoRenew: true})
	if err != nil {
		return nil, err
	}
	fair, err := lock.New(client, lock.Options{NoRenew: true, Fair: true})
	if err != nil {
		return nil, err
	}
	semaphores, err := lock.NewSemaphore(client, lock.SemaphoreOptions{NoRenew: true})
	if err != nil {
		return nil, err
	}
	indexes, err := geo.New(client, geo.Options{})
	if err != nil {
		return nil, err
	}
	return &Env{
		Client: client, locks: locks, fair: fair, semaphores: semaphores, stored: ratelimitwire.NewStored(client, ""), hashes: ttlhashwire.NewServers(client, false), indexes: geoIndexes{all: indexes},
		chains: wire.NewChains(client), decisions: newDecisions(), filters: newTally(),
	}, nil
}

// maxBlock is the longest wait of a BLOCK, in ms: ten years.
const maxBlock = int64(10 * 365 * 24 * time.Hour / time.Millisecond)

var (
	docBlock     = fmt.Sprintf("`ERR redoubt: BLOCK is …; want 0 to %d`", maxBlock)
	docBlockElse = "`ERR redoubt: this works in the back end's own database only: …`: BLOCK after SELECT of another"
)

// blockArg is the option of every command that can wait. It means what it does in Redis.
func blockArg(while string) Arg {
	return Arg{Name: "block", Type: "integer", Unit: "ms", Token: "BLOCK", Use: Optional, Summary: fmt.Sprintf(
		"while %s, wait for at most this long: 0 to %d ms; 0 waits for ever. Without BLOCK the command doesn't wait. Inside MULTI it never waits", while, maxBlock)}
}

// blockTime reads the value of BLOCK.
func blockTime(b []byte) (time.Duration, string) {
	n, fault := milliseconds("BLOCK", b, 0, maxBlock)
	return time.Duration(n) * time.Millisecond, fault
}

// undoTimeout bounds the release of a lock whose client has gone. Past it the
// lock ends with its TTL.
const undoTimeout = 3 * time.Second

// acquire waits for a lock on behalf of a client.
func (env *Env) acquire(ctx context.Context, w way, a acquire) Outcome {
	wait := Waiting(ctx)
	if a.block > 0 {
		var cancel context.CancelFunc
		wait, cancel = context.WithTimeout(wait, a.block)
		defer cancel()
	}
	// A client that made the id may repeat the command on another connection, before the server
	// notices the end of this one, and hold the lock.
	a.r.Keep = !a.secret
	got, err := w.take(lockwire.OnHandOver(wait, func(took time.Duration) { w.count.handOver.Observe(took, 1) }), a.r)
	if errors.Is(err, lock.ErrNotHeld) {
		return Outcome{Append: func(dst []byte, _ resp.Protocol) []byte { return resp.AppendError(dst, errOver) }}
	}
	if err != nil {
		// The deadline can pass before the timer of wait runs.
		over := wait.Err() != nil || errors.Is(err, context.DeadlineExceeded)
		if ctx.Err() == nil && errors.Is(err, redoubt.ErrUnknownOutcome) && (a.secret || over) {
			env.undo(ctx, w.release) // before the answer, after which it may be asked for again
		}
		if ctx.Err() == nil && over {
			// Out of time, or unblocked. Should the last attempt have landed all the
			// same, it has been taken back.
			if errors.Is(Unblocked(ctx), ErrUnblocked) {
				return unblockedOutcome()
			}
			w.count.refused.Add(1)
			return Outcome{Append: resp.AppendNullArray}
		}
		if ctx.Err() != nil {
			err = errors.New("the server is shutting down")
		}
		return Outcome{Append: func(dst []byte, _ resp.Protocol) []byte { return appendError(dst, err) }}
	}
	w.count.acquired.Add(1)
	o := Outcome{Append: func(dst []byte, _ resp.Protocol) []byte { return appendAcquired(dst, got.ID, got.Token, got.TTL) }}
	if a.secret {
		o.Undo = func() { env.undo(context.WithoutCancel(ctx), w.release) }
	}
	return o
}

// undo takes back the lock of a client that has gone, by its release.
func (env *Env) undo(ctx context.Context, release redoubt.Cmd) {
	ctx, cancel := context.WithTimeout(redoubt.Patient(ctx), undoTimeout)
	defer cancel()
	_ = env.Client.Do(ctx, release) // or else the lock ends with its TTL
}

// Finishing returns a context for the steps of a [Plan] that is Whole: when the client or the
// server ends, they have a while to be done.
func Finishing(ctx context.Context) (longer context.Context, stop func()) {
	return outliving(ctx, undoTimeout)
}

// outliving returns a context that ends when stop is called, or d after ctx has
// ended.
func outliving(ctx context.Context, d time.Duration) (longer context.Context, stop func()) {
	longer, cancel := context.WithCancel(context.WithoutCancel(ctx))
	unhook := context.AfterFunc(ctx, func() { time.AfterFunc(d, cancel) })
	return longer, func() {
		unhook()
		cancel()
	}
}
