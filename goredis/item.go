package goredis

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"github.com/redoubt-go/redoubt"
)

// An item is one command on its way: it goes to go-redis as a redis.Cmder that
// is never resent, and notes when its bytes were asked for. Bytes that go-redis
// never asked for were never sent; that tells a failure to get a connection
// from a lost reply, whatever the error looks like.
//
// Nothing in it is recycled: the caller may be gone while go-redis still sends.
type item struct {
	*redis.Cmd // of the current attempt

	script *redoubt.Script
	flags  redoubt.Flags
	key    string // the first key, which routes the command; "" without keys
	keyPos int8   // of key in args, 0 without keys
	args   []any
	inline [12]any // backs args when it is long enough

	state   atomic.Uint32
	reply   redoubt.Reply // written before state becomes stateDone
	written atomic.Bool   // go-redis asked for the bytes in this attempt
	replied atomic.Bool   // go-redis has read a reply that is no error in this attempt

	// These belong to the goroutine that runs the item.
	err        error // of the last attempt
	node       *redis.Client
	mayHaveRun bool                // in an earlier attempt, whose reply was lost
	fatal      bool                // err will not go away
	done       func(redoubt.Reply) // called with the reply, or nil
	redirected bool                // send by way of the ClusterClient, which follows redirects
	missed     bool                // the node doesn't know the script
	several    bool                // a pool may send it to several servers in parts
	eval       bool                // args hold the script's text, not its digest
	resends    int8
	loads      int8
	closed     int8
}

// The states of an item. Only the goroutine that runs it moves it to sent and
// done, only its caller to abandoned.
const (
	stateIdle      = iota // not sent, or known not to have run
	stateSent             // may have run
	stateDone             // reply is set
	stateAbandoned        // its caller left before it was sent: it must not be
)

// numbers are the counts of keys, boxed once.
var numbers = [...]any{"0", "1", "2", "3", "4", "5", "6", "7", "8"}

func (it *item) init(cmd redoubt.Cmd) {
	it.script, it.flags = cmd.Script, cmd.Flags
	it.several = cmd.Script == nil && len(cmd.Keys) > 1
	args := it.inline[:0]
	if n := len(cmd.Keys) + len(cmd.Args) + 3; n > len(it.inline) {
		args = make([]any, 0, n)
	}
	if cmd.Script != nil {
		args = append(args, "evalsha", cmd.Script.Digest())
		if n := len(cmd.Keys); n < len(numbers) {
			args = append(args, numbers[n])
		} else {
			args = append(args, strconv.Itoa(n))
		}
	} else {
		first, second, two := strings.Cut(cmd.Name, " ")
		args = append(args, first)
		if two {
			args = append(args, second)
		}
	}
	it.key = cmd.At
	if len(cmd.Keys) > 0 {
		it.key = cmd.Keys[0]
		it.keyPos = int8(len(args)) //nolint:gosec // at most 3
	}
	for _, k := range cmd.Keys {
		args = append(args, k)
	}
	for _, a := range cmd.Args {
		args = append(args, a)
	}
	it.args = args
}

// prepare readies the item for the next attempt.
func (it *item) prepare(ctx context.Context) {
	if it.eval && it.args[0] == any("evalsha") {
		args := append([]any(nil), it.args...) // go-redis may still look at the old ones
		args[0], args[1] = "eval", it.script.Source()
		it.args = args
	}
	it.Cmd = redis.NewCmd(ctx, it.args...)
	it.SetFirstKeyPos(it.keyPos)
	it.err, it.fatal, it.missed = nil, false, false
	it.written.Store(false)
	it.replied.Store(false)
}

// NoRetry makes go-redis send the command once.
func (it *item) NoRetry() bool { return true }

// Args is called by go-redis when it writes the command. A hook may call it
// sooner, which can only make a command that was not sent look as if it was.
func (it *item) Args() []any {
	it.written.Store(true)
	if !it.state.CompareAndSwap(stateIdle, stateSent) && it.state.Load() == stateAbandoned {
		return []any{unsendable{}}
	}
	return it.Cmd.Args()
}

// SetErr is called by go-redis for each reply that it reads from a pipeline, with nil when all is well.
// When the connection breaks later in the pipeline, go-redis calls it again, with that error, for every
// command without an error, including commands that have a reply. These keep their reply.
func (it *item) SetErr(err error) {
	if err == nil {
		it.replied.Store(true)
	} else if it.replied.Load() {
		return
	}
	it.Cmd.SetErr(err)
}

// unsendable is the argument that keeps a command from being written.
type unsendable struct{}

var errAbandoned = errors.New("goredis: the caller left before the command was sent")

func (unsendable) MarshalBinary() ([]byte, error) { return nil, errAbandoned }

// notRun notes that the attempt was refused or never sent.
func (it *item) notRun() {
	if !it.mayHaveRun {
		it.state.CompareAndSwap(stateSent, stateIdle)
	}
}

func (it *item) finish(r redoubt.Reply) {
	it.reply = r
	it.state.Store(stateDone)
	if it.done != nil {
		it.done(r)
	}
}

// fail finishes the item with err, which ended the attempts.
func (it *item) fail(err error) {
	if it.mayHaveRun && it.flags&redoubt.ReadOnly == 0 {
		err = redoubt.UnknownOutcome(err)
	}
	it.finish(redoubt.Reply{Err: err})
}

// outcome returns the reply, or what the caller is told when ctx ended first.
func (it *item) outcome(ctx context.Context) redoubt.Reply {
	if it.state.Load() == stateDone {
		return it.reply
	}
	return it.leave(ctx.Err())
}

// leave is for the caller whose ctx ended with err.
func (it *item) leave(err error) redoubt.Reply {
	for {
		switch it.state.Load() {
		case stateDone:
			return it.reply
		case stateIdle:
			if it.state.CompareAndSwap(stateIdle, stateAbandoned) {
				return redoubt.Reply{Err: err}
			}
		default:
			if it.flags&redoubt.ReadOnly == 0 {
				err = redoubt.UnknownOutcome(err)
			}
			return redoubt.Reply{Err: err}
		}
	}
}
