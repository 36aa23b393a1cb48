package server_test

import (
	"fmt"
	"runtime"
	"sync"
	"testing"
)

// Clients that do nothing take no goroutine each, and delay nobody; and when all
// have gone nothing of them is left. Elsewhere than on Linux each has a goroutine.
func TestManyIdleClients(t *testing.T) {
	const idle, busy, rounds = 500, 8, 200
	srv, addr := start(t, engineURL(t))
	connected(t, srv)
	first := dial(t, addr)
	first.want("+PONG\r\n", "PING")
	files, goroutines := descriptors(t), runtime.NumGoroutine()
	all := make([]*wire, idle)
	for i := range all {
		all[i] = dial(t, addr)
		all[i].want("+PONG\r\n", "PING")
	}
	if n := runtime.NumGoroutine() - goroutines; n > idle/10 {
		t.Errorf("%d goroutines for %d idle clients", n, idle)
	}
	var wg sync.WaitGroup
	for k := range busy {
		wg.Go(func() {
			w := dial(t, addr)
			for i := range rounds {
				w.sendQuietly("INCR", fmt.Sprint("n", k))
				if got, err := w.next(); got != fmt.Sprintf(":%d\r\n", i+1) {
					t.Errorf("client %d: %q, %v", k, got, err)
					return
				}
				// A client that has been idle for long is served as well.
				if i%10 == k {
					o := all[(i*busy+k)%idle]
					o.sendQuietly("PING", "idle")
					if got, err := o.next(); got != bulk("idle") {
						t.Errorf("an idle client: %q, %v", got, err)
					}
				}
			}
			_ = w.conn.Close()
		})
	}
	wg.Wait()
	for _, w := range all {
		_ = w.conn.Close()
	}
	eventually(t, "they have gone", func() bool { return srv.Stats().Clients == 1 })
	eventually(t, "their descriptors are closed", func() bool { return descriptors(t) <= files })
	eventually(t, "their goroutines have ended", func() bool { return runtime.NumGoroutine() <= goroutines })
}
