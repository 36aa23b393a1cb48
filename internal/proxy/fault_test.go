package proxy_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/proxy"
	"github.com/redoubt-go/redoubt/internal/proxy/ring"
	"github.com/redoubt-go/redoubt/internal/resp"
)

// Promise: When the connection is lost, every command in flight gets one error, which says whether
// the command may have run.
func TestFaultsTellTheOutcome(t *testing.T) {
	for _, c := range []struct {
		fault *proxy.Fault
		text  string
		want  bool // the command may have run
	}{
		{proxy.Lost("r"), "-ERR redoubt: connection to back end r lost before the reply: the command may have run\r\n", true},
		{proxy.Unsent("r"), "-ERR redoubt: connection to back end r lost: the command was not sent\r\n", false},
		{proxy.Unreachable("r", errors.New("x: the command may have run")), "-ERR redoubt: back end r is unreachable: x: the command may have run\r\n", false},
	} {
		if got := string(c.fault.Reply()); got != c.text {
			t.Errorf("reply %q, want %q", got, c.text)
		}
		if got := errors.Is(fmt.Errorf("y: %w", c.fault), redoubt.ErrUnknownOutcome); got != c.want {
			t.Errorf("%v: matches redoubt.ErrUnknownOutcome: %v, want %v", c.fault, got, c.want)
		}
	}
}

// A server's own words are a reply, whatever they say.
func TestRepliesAreNoFaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &okayer{}
		pool, err := proxy.NewPool(proxy.PoolOptions{Servers: []proxy.PoolServer{{Server: ring.Server{Name: "one", Weight: 1}, Backend: o}}})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = pool.Close() }()
		x, err := pool.Nodes()[0].Borrow(t.Context(), resp.RESP2)
		if err != nil {
			t.Fatal(err)
		}
		says := proxy.Lost("okayer").Reply()
		o.says.Store(&says)
		raw, err := x.Ask(t.Context(), 1, resp.AppendCommand(nil, "GET", "k"))
		if err != nil || string(raw) != string(says) || x.Fault() != nil {
			t.Errorf("got %q, %v, fault %v; want the server's reply and no fault", raw, err, x.Fault())
		}
		x.Return()
	})
}
