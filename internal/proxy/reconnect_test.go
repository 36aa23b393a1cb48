package proxy_test

import (
	"testing"
	"time"

	"github.com/redoubt-go/redoubt/internal/proxy"
	"github.com/redoubt-go/redoubt/internal/test/await"
	"github.com/redoubt-go/redoubt/internal/test/ports"
)

// TestReconnectNow: an upstream tries a server that has been down for long a few times a second, or at
// once when it is told that the server is back.
func TestReconnectNow(t *testing.T) {
	nobody, err := ports.Reserve()
	if err != nil {
		t.Fatal(err)
	}
	defer nobody.Release()
	u := upstream(t, proxy.Options{Backend: &proxy.Redis{Addr: ports.Addr(nobody.Number)}})
	failures := func(n uint64) {
		t.Helper()
		await.Soon(t, "it tries", func() bool { return u.Stats().Failures >= n })
	}
	failures(7) // the pauses are as long as they get: a quarter of a second at least
	const hurried = 20
	pulse := await.NewPulse(t)
	for range hurried {
		n := u.Stats().Failures
		u.ReconnectNow()
		failures(n + 1)
	}
	if took := pulse.Now(); took > hurried*250*time.Millisecond/2 {
		t.Errorf("%d attempts took %v", hurried, took)
	}
}
