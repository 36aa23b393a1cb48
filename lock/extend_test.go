package lock_test

import (
	"context"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt"
	wire "github.com/redoubt-go/redoubt/internal/wire/lock"
	"github.com/redoubt-go/redoubt/lock"
)

// An extension on its way to a master when the lease ends takes it no more, as long as
// the master remembers that; and an extension never makes a part of a lease shorter.
func TestQuorumExtendRefusesWhatIsOver(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		c := e.newClient()
		run := func(cmd redoubt.Cmd) redoubt.Reply {
			t.Helper()
			r := c.Do(t.Context(), cmd)
			must(t, r.Err)
			return r
		}
		extend := func(name, id string) (bool, time.Duration) {
			t.Helper()
			held, left, err := wire.ReadExtend(run(wire.QuorumExtendCmd([]string{e.key(name)}, id, time.Minute, "", 0)))
			must(t, err)
			return held, left
		}
		acquire := func(name, id string, ttl time.Duration) {
			t.Helper()
			if a, err := wire.ReadAttempt(run(wire.AcquireCmd([]string{e.key(name)}, wire.Request{ID: id, TTL: ttl}))); err != nil || a.Status != wire.Acquired {
				t.Fatalf("%+v, %v", a, err)
			}
		}
		acquire("longer", "x", time.Hour)
		if held, left := extend("longer", "x"); !held || left < 50*time.Minute {
			t.Errorf("an extension by a minute leaves %v of an hour (%v)", left, held)
		}

		acquire("released", "x", time.Hour)
		run(wire.ReleaseCmd([]string{e.key("released")}, "x", "", false))
		if held, _ := extend("released", "x"); held {
			t.Error("it takes what was released")
		}
		acquire("released", "y", time.Millisecond)
		eventually(t, "y has run out", func() bool {
			held, _, err := wire.ReadExtend(run(wire.ExtendCmd([]string{e.key("released")}, "y", time.Millisecond)))
			must(t, err)
			return !held
		})
		if held, _ := extend("released", "x"); held {
			t.Error("it takes what was released before another had it")
		}

		run(wire.ReleaseCmd([]string{e.key("void")}, "x", "", true))
		if held, _ := extend("void", "x"); held {
			t.Error("it takes what was given up")
		}
	})
}

// An overtaken Conn answers extensions as if each were for a minute.
type overtaken struct{ redoubt.Conn }

func (c overtaken) Do(ctx context.Context, cmd redoubt.Cmd) redoubt.Reply {
	r := c.Conn.Do(ctx, cmd)
	if a, ok := r.Val.([]any); ok && cmd.Script != nil && cmd.Script.Name() == "lock.extend" && cmd.Args[1] == "60000000" {
		a[2] = int64(60_000_000)
	}
	return r
}

// The answer to an extension that was overtaken by a longer one leaves the lease's
// deadline where it is.
func TestAnOvertakenAnswerLeavesTheDeadline(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		m := e.mutex(e.ClientOn(overtaken{newCounting(t, e.Redis).Conn}), lock.Options{NoRenew: true})
		lease := try(t, m, t.Name())
		must(t, lease.Extend(t.Context(), time.Hour))
		long := lease.Deadline()
		must(t, lease.Extend(t.Context(), time.Minute))
		if d := lease.Deadline(); !d.Equal(long) {
			t.Errorf("the deadline went from %v to %v", long, d)
		}
		must(t, lease.Release(t.Context()))
	})
}
