package redoubttest

import (
	"context"
	"errors"
	"testing"

	"github.com/redoubt-go/redoubt"
)

// testRefusals has a server refuse commands for reasons that pass.
func testRefusals(t *testing.T, n Network) {
	for _, refusal := range []string{
		"LOADING Redis is loading the dataset in memory",
		"READONLY You can't write against a read only replica.",
		"TRYAGAIN Multiple keys request during rehashing of slot",
		"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
		"CLUSTERDOWN The cluster is down",
	} {
		code := redoubt.ServerError(refusal).Code()
		const times = 4
		t.Run(code, func(t *testing.T) {
			refused := 0
			f := newFake(t, func([]string) string {
				if refused++; refused <= times {
					return "-" + refusal + "\r\n"
				}
				return ":1\r\n"
			})
			c := n.Open(t, f.addr())
			if got := must(t, c.Do(bounded(t), redoubt.Cmd{Name: "INCR", Keys: []string{"k"}})); got != any(int64(1)) {
				t.Errorf("got %#v, want 1", got)
			}
			if got := f.count("INCR"); got != times+1 {
				t.Errorf("sent %d times, want %d", got, times+1)
			}
		})

		t.Run(code+" in a pipeline", func(t *testing.T) {
			refused := 0
			f := newFake(t, func(args []string) string {
				if args[0] == "DECR" {
					if refused++; refused <= times {
						return "-" + refusal + "\r\n"
					}
				}
				return ":1\r\n"
			})
			for i, r := range n.Open(t, f.addr()).Pipeline(bounded(t), []redoubt.Cmd{
				{Name: "INCR", Keys: []string{"k"}},
				{Name: "DECR", Keys: []string{"k"}},
				{Name: "INCR", Keys: []string{"k"}},
			}) {
				if r.Err != nil || r.Val != any(int64(1)) {
					t.Errorf("reply %d is %#v, want 1", i, r)
				}
			}
			if got := f.count("INCR"); got != 2 {
				t.Errorf("commands that were not refused were sent %d times, want 2", got)
			}
			if got := f.count("DECR"); got != times+1 {
				t.Errorf("the refused command was sent %d times, want %d", got, times+1)
			}
		})

		t.Run(code+" for ever", func(t *testing.T) {
			f := newFake(t, func([]string) string { return "-" + refusal + "\r\n" })
			c := n.Open(t, f.addr())
			leaves(t, func() {}, func(t *testing.T, ctx context.Context, end error) bool {
				r := c.Do(ctx, redoubt.Cmd{Name: "INCR", Keys: []string{"k"}})
				if !errors.Is(r.Err, end) {
					t.Errorf("error %v, want %v", r.Err, end)
				}
				return true
			})
		})
	}

	t.Run("other errors are final", func(t *testing.T) {
		f := newFake(t, func([]string) string { return "-ERR no\r\n" })
		r := n.Open(t, f.addr()).Do(bounded(t), redoubt.Cmd{Name: "INCR", Keys: []string{"k"}, Flags: redoubt.Idempotent})
		if want := redoubt.ServerError("ERR no"); !errors.Is(r.Err, want) {
			t.Errorf("got %#v, want %v", r, want)
		}
		if got := f.count("INCR"); got != 1 {
			t.Errorf("sent %d times, want 1", got)
		}
	})

	t.Run("NOSCRIPT for ever", func(t *testing.T) {
		// Whatever SCRIPT LOAD does, the script's text runs in the end.
		for _, load := range []string{"+" + script("").Digest() + "\r\n", "-NOPERM no\r\n"} {
			f := newFake(t, func(args []string) string {
				switch args[0] {
				case "evalsha", "EVALSHA":
					return "-NOSCRIPT No matching script. Please use EVAL.\r\n"
				case "script", "SCRIPT":
					return load
				}
				return ":1\r\n"
			})
			c := n.Open(t, f.addr())
			cmd := redoubt.Cmd{Script: script("return 1"), Keys: []string{"k"}}
			replies := append(c.Pipeline(bounded(t), []redoubt.Cmd{cmd, cmd}), c.Do(bounded(t), cmd))
			for i, r := range replies {
				if r.Err != nil || r.Val != any(int64(1)) {
					t.Errorf("reply %d is %#v, want 1", i, r)
				}
			}
			if evals, shas := f.count("EVAL"), f.count("EVALSHA"); evals != 3 || shas > 12 {
				t.Errorf("%d EVAL and %d EVALSHA, want 3 and a few", evals, shas)
			}
		}
	})

	t.Run("one load for many", func(t *testing.T) {
		loaded := false
		f := newFake(t, func(args []string) string {
			switch args[0] {
			case "script", "SCRIPT":
				loaded = true
				return "+" + script("").Digest() + "\r\n"
			}
			if !loaded {
				return "-NOSCRIPT No matching script. Please use EVAL.\r\n"
			}
			return ":1\r\n"
		})
		c := n.Open(t, f.addr())
		cmd := redoubt.Cmd{Script: script("return 1"), Keys: []string{"k"}}
		cmds := make([]redoubt.Cmd, 100)
		for i := range cmds {
			cmds[i] = cmd
		}
		for _, r := range c.Pipeline(bounded(t), cmds) {
			must(t, r)
		}
		if got := f.count("SCRIPT"); got != 1 {
			t.Errorf("a pipeline loaded its script %d times, want once", got)
		}
	})
}
