package cache_test

import (
	"context"
	"errors"
	"maps"
	"sync"
	"testing"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/test/clienttest"
)

// A hooked is a Conn that tells of each command, before it is sent and when its reply has
// come. Its subscriptions wait for open.
type hooked struct {
	redoubt.Conn
	redoubt.Subscriber

	before, after func(cmd redoubt.Cmd) // may be nil
	open          chan struct{}
}

func newHooked(e *env) *hooked {
	conn := clienttest.Wrap(e.T, e.connect())
	return &hooked{Conn: conn, Subscriber: conn, open: make(chan struct{})}
}

func (h *hooked) Do(ctx context.Context, cmd redoubt.Cmd) redoubt.Reply {
	return h.Pipeline(ctx, []redoubt.Cmd{cmd})[0]
}

func (h *hooked) Pipeline(ctx context.Context, cmds []redoubt.Cmd) []redoubt.Reply {
	tell := func(f func(cmd redoubt.Cmd)) {
		for i := 0; f != nil && i < len(cmds); i++ {
			f(cmds[i])
		}
	}
	tell(h.before)
	defer tell(h.after)
	return h.Conn.Pipeline(ctx, cmds)
}

func (h *hooked) Subscribe(ctx context.Context, channel string, sharded bool, on func(payload string, lost bool)) (stop func(), err error) {
	select {
	case <-h.open:
		return h.Subscriber.Subscribe(ctx, channel, sharded, on)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func isScript(cmd redoubt.Cmd, name string) bool {
	return cmd.Script != nil && cmd.Script.Name() == name
}

// A value that was read before the local level listens is not kept, because it may have been
// invalidated meanwhile.
//
// Promise: while a process is connected, its local level lags by at most 100 ms after an Invalidate
// or Set; while it is not, it serves no value older than LocalTTL plus StaleIfError.
func TestLocalLevelBeginsEmpty(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		b, s, conn := e.users(), newSource("old"), newHooked(e)
		gets(t, b, "1", "old", s.load)
		a := e.usersOn(e.ClientOn(conn), withLocal)
		var once sync.Once
		conn.after = func(cmd redoubt.Cmd) {
			once.Do(func() {
				s.value.Store("new")
				must(t, b.Invalidate(t.Context(), "1"))
				close(conn.open)
				eventually(t, "it listens", a.Heard)
			})
		}
		_, _, err := a.Get(t.Context(), "1", s.load)
		must(t, err)
		gets(t, a, "1", "new", s.load)
	})
}

// A tag that is invalidated while a value is set invalidates the value.
//
// Promise: a tag invalidates all entries that have it, also entries that are being loaded.
func TestTagWhileItIsSet(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		tags := func(o *options) { o.Tags = func(_, _ string) []string { return []string{"x"} } }
		b, conn := e.users(tags), newHooked(e)
		conn.before = func(cmd redoubt.Cmd) {
			if isScript(cmd, "cache.set") {
				must(t, b.InvalidateTag(t.Context(), "x"))
			}
		}
		a := e.usersOn(e.ClientOn(conn), tags)
		must(t, a.Set(t.Context(), "1", "v"))
		must(t, b.InvalidateTag(t.Context(), "x"))
		if e.Redis.Exists(t.Context(), e.key("1")).Val() == 1 {
			t.Error("it has lost its tag")
		}
	})
}

// A lease and a Set are sent once: a later copy would undo changes in between. The other commands
// may be sent again.
//
// Promise: a command that takes a lease or sets a value is never sent twice.
func TestLeasesAndSetsAreSentOnce(t *testing.T) {
	t.Parallel()
	e := onCluster(t)
	conn, sentAgain := newHooked(e), map[string]bool{}
	conn.before = func(cmd redoubt.Cmd) {
		if cmd.Script != nil {
			sentAgain[cmd.Script.Name()] = cmd.Flags.Resendable()
		}
	}
	c := e.usersOn(e.ClientOn(conn))
	gets(t, c, "1", "ann", newSource("ann").load)
	failing := newSource("")
	failing.fail(errors.New("no"))
	if _, _, err := c.Get(t.Context(), "2", failing.load); err == nil {
		t.Error("no error")
	}
	must(t, c.Set(t.Context(), "1", "bob"))
	must(t, c.Invalidate(t.Context(), "1"))
	want := map[string]bool{
		"cache.read": true, "cache.lease": false, "cache.store": true, "cache.release": true, "cache.set": false, "cache.invalidate": true,
	}
	if !maps.Equal(sentAgain, want) {
		t.Errorf("sent again: %v; want %v", sentAgain, want)
	}
}
