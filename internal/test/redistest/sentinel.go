package redistest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/redoubt-go/redoubt/internal/test/slow"
)

// A Watched is a master that Sentinels watch.
type Watched struct {
	Name     string
	Master   *Server
	Replicas []*Server
}

// downAfter is how long a server may be silent until a Sentinel takes it for down, and
// failoverTimeout after how much of it twice another Sentinel tries when one hasn't managed.
const (
	downAfter       = "500"
	failoverTimeout = "2000"
)

// StartSentinels runs n Sentinels, and returns when they know each other and the servers. A
// majority of them decides. conf is more lines for the file of each. A silent master
// has a successor within some 2 s. They are killed when tb ends. Tests of
// Sentinels are left to make test-all.
func StartSentinels(tb testing.TB, n int, watched []Watched, conf ...string) []*Server {
	tb.Helper()
	slow.Test(tb, "it needs Sentinels")
	for range 100 {
		sentinels, err := startSentinels(tb, n, watched, conf)
		if err == nil {
			return sentinels
		}
		if !errors.Is(err, errPortTaken) {
			tb.Fatalf("redistest: Sentinels: %v", err)
		}
	}
	tb.Fatal("redistest: Sentinels: no ports are free")
	return nil
}

func startSentinels(tb testing.TB, n int, watched []Watched, conf []string) ([]*Server, error) {
	tb.Helper()
	sentinels := make([]*Server, n)
	for i := range sentinels {
		p, err := newProcess([]string{"--sentinel"})
		if err != nil {
			return nil, err
		}
		tb.Cleanup(p.remove)
		if err := p.reserve(); err != nil {
			return nil, err
		}
		p.first = []string{filepath.Join(p.dir, "sentinel.conf")}
		sentinels[i] = &Server{tb: tb, p: p}
	}
	// This tells them facts that they would find out within seconds.
	var lines []string
	for _, w := range watched {
		lines = append(lines,
			fmt.Sprintf("sentinel monitor %s 127.0.0.1 %d %d", w.Name, w.Master.p.port, n/2+1),
			"sentinel down-after-milliseconds "+w.Name+" "+downAfter,
			"sentinel failover-timeout "+w.Name+" "+failoverTimeout)
		for _, r := range w.Replicas {
			lines = append(lines, "sentinel known-replica "+w.Name+" 127.0.0.1 "+strconv.Itoa(r.p.port))
		}
		for i, s := range sentinels {
			lines = append(lines, fmt.Sprintf("sentinel known-sentinel %s 127.0.0.1 %d %s", w.Name, s.p.port, sentinelID(i)))
		}
	}
	for i, s := range sentinels {
		own := append([]string{"sentinel myid " + sentinelID(i)}, conf...)
		for _, l := range lines {
			if !strings.HasSuffix(l, sentinelID(i)) {
				own = append(own, l)
			}
		}
		if err := os.WriteFile(s.p.first[0], []byte(strings.Join(own, "\n")+"\n"), 0o600); err != nil {
			return nil, err
		}
		if err := s.p.start(); err != nil {
			return nil, err
		}
	}
	for _, s := range sentinels {
		for _, w := range watched {
			err := within(func() error { return s.watches(w, n) })
			if err != nil {
				return nil, err
			}
		}
	}
	return sentinels, nil
}

func sentinelID(i int) string { return fmt.Sprintf("%040x", i+1) }

// watches returns nil when s, of n Sentinels, could have a replica of w take over.
func (s *Server) watches(w Watched, n int) error {
	state, err := s.text("SENTINEL", "CKQUORUM", w.Name)
	if err != nil {
		return err
	}
	if !strings.HasPrefix(state, "OK "+strconv.Itoa(n)+" ") {
		return errors.New(state)
	}
	v, err := s.p.call("SENTINEL", "REPLICAS", w.Name)
	if err != nil {
		return err
	}
	replicas, _ := v.([]any)
	well := 0
	for _, r := range replicas {
		if text := fmt.Sprint(r); strings.Contains(text, "flags slave ") && strings.Contains(text, "master-link-status ok") {
			well++
		}
	}
	if well != len(w.Replicas) {
		return fmt.Errorf("%d replicas are well: %v", well, replicas)
	}
	return nil
}
