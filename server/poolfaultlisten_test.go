package server_test

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt/resp"
)

const channels = 4

func faultsChannel(i int) string { return fmt.Sprintf("channel:%d", i) }

// A faultsListener listens to a channel of a pool whose servers fail: each message is of
// the channel, those of one publisher come in order, and only a fault of the channel's
// server ends it.
type faultsListener struct {
	channel string
	at      int // the number of its server
	fault   *faulty
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
		case <-time.After(10 * time.Millisecond): // its server may be down for a while
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
	w := &wire{tb: t, conn: conn}
	w.sendQuietly("SUBSCRIBE", l.channel)
	for first := true; ; first = false {
		raw, err := w.next()
		v, _, perr := resp.Parse([]byte(raw))
		m, _ := v.([]any)
		switch {
		case err != nil && !l.fault.now.Load():
			return fmt.Errorf("closed without a fault of its server: %w", err)
		case err != nil:
			return nil
		case first && raw[0] == '-' && l.fault.now.Load() && strings.Contains(raw, fmt.Sprintf("redis-%d", l.at+1)):
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
