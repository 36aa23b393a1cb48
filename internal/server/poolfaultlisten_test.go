package server_test

import (
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt/internal/resp"
)

const channels = 4

func faultsChannel(i int) string { return fmt.Sprintf("channel:%d", i) }

// A faultsListener listens to a channel of a pool whose servers fail. It gets messages of that channel
// only, in the order of each publisher, until a server fails.
type faultsListener struct {
	channel string
	faults  []faulty
	heard   atomic.Int64
	joined  atomic.Int64 // how often it has subscribed
	last    map[string]int
}

// work listens, and subscribes anew whenever it is closed, until stop is closed.
func (l *faultsListener) work(t *testing.T, addr string, stop <-chan struct{}) {
	for {
		err := l.listen(t, addr, stop)
		select {
		case <-stop:
			return
		case <-time.After(time.Millisecond):
		}
		if err != nil {
			t.Errorf("%s: %v", l.channel, err)
			return
		}
	}
}

func (l *faultsListener) listen(t *testing.T, addr string, stop <-chan struct{}) error {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	ended := make(chan struct{})
	defer close(ended)
	go func() {
		select {
		case <-stop:
		case <-ended:
		}
		_ = conn.Close()
	}()
	whole, times := !l.faulty(), l.times()
	w := &wire{tb: t, conn: conn}
	w.sendQuietly("SUBSCRIBE", l.channel)
	for first := true; ; first = false {
		raw, err := w.next()
		v, _, perr := resp.Parse([]byte(raw))
		m, _ := v.([]any)
		switch {
		case err != nil && !l.faulty() && whole && l.times() == times: // it is closed once a server is back
			return fmt.Errorf("closed without a fault: %w", err)
		case err != nil:
			return nil
		case perr != nil || len(m) != 3 || m[1] != l.channel:
			return fmt.Errorf("%q", raw)
		case first && m[0] == "subscribe":
			l.joined.Add(1)
			continue
		}
		var of, by string
		var n int
		if _, err := fmt.Sscanf(fmt.Sprint(m[2]), "message of %s by %s %d", &of, &by, &n); err != nil || of != l.channel || m[0] != "message" {
			return fmt.Errorf("%q", raw)
		}
		if n <= l.last[by] {
			return errors.New("out of order: " + raw)
		}
		l.last[by] = n
		l.heard.Add(1)
	}
}

// faulty reports whether a server has a fault.
func (l *faultsListener) faulty() bool {
	for i := range l.faults {
		if l.faults[i].now.Load() {
			return true
		}
	}
	return false
}

// times is how many faults there have been.
func (l *faultsListener) times() (n int64) {
	for i := range l.faults {
		n += l.faults[i].times.Load()
	}
	return n
}
