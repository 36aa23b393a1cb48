package server_test

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt/internal/test/await"
	"github.com/redoubt-go/redoubt/internal/test/faultnet"
	"github.com/redoubt-go/redoubt/internal/test/randtest"
	"github.com/redoubt-go/redoubt/internal/test/slow"
)

// followThrough makes s a replica of another, by a network that can be cut.
func (s *side) followThrough(t *testing.T, of *side) *faultnet.Proxy {
	t.Helper()
	network := faultnet.New(t, of.addr)
	s.follow(t, &side{addr: network.Addr()})
	return network
}

// copies is how many replicas have got a copy of all keys.
func (s *side) copies(t *testing.T) int {
	t.Helper()
	info, err := s.rdb.InfoMap(t.Context(), "stats").Result()
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(info["Stats"]["sync_full"])
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestReplicaOfReplica: a server follows a replica, while clients write to the master and connections are lost. It gets
// the master's stream: with the same ID and offsets. When the replica becomes the master, the other goes on
// without a copy of all keys, and so can the former master.
//
// Promise: a replica of a replica that has the whole stream has the same keys as the master.
func TestReplicaOfReplica(t *testing.T) {
	for i, kinds := range [][3]string{{"redis", "engine", "redis"}, {"engine", "redis", "engine"}, {"engine", "engine", "redis"}, {"redis", "redis", "engine"}, {"engine", "engine", "engine"}} {
		t.Run(strings.Join(kinds[:], " to "), func(t *testing.T) {
			if i > 0 {
				slow.Test(t, "three servers copy their keys four times")
			}
			seed := randtest.Seed(t)
			steps := randtest.Watch(t)
			step := func(what string) { steps.Begin(func() string { return what }) }
			step("load")
			master, middle, last := startSide(t, kinds[0]), startSide(t, kinds[1]), startSide(t, kinds[2])
			end := master.load(t, seed, 4)
			await.Until(t, time.Minute, "there are keys", func() bool { return master.rdb.DBSize(t.Context()).Val() > keys/2 })
			networks := []*faultnet.Proxy{middle.followThrough(t, master), last.followThrough(t, middle)}
			for i := range 4 {
				step(fmt.Sprint("lost connection ", i))
				for _, s := range []*side{middle, last} {
					before := s.info(t)["slave_repl_offset"]
					await.Until(t, time.Minute, "the stream goes on", func() bool { return s.info(t)["slave_repl_offset"] != before })
				}
				networks[i%2].Cut()
			}
			step("comparison")
			end()
			equal(t, master, middle)
			equal(t, master, last)
			want := master.info(t)
			for _, s := range []*side{middle, last} {
				got := s.info(t)
				if got["role"] != "slave" || got["master_replid"] != want["master_replid"] || got["master_link_status"] != "up" {
					t.Errorf("the master has %v, a replica %v", want, got)
				}
			}
			_, own, _ := net.SplitHostPort(middle.addr)
			if got := want["slave0"]; !strings.Contains(got, "port="+own+",") {
				t.Errorf("the replica listens on %s, the master has %s", own, got)
			}
			if got := middle.info(t); got["connected_slaves"] != "1" || got["slave0"] == "" {
				t.Errorf("the middle has %v", got)
			}
			host, port, _ := net.SplitHostPort(networks[0].Addr())
			n, _ := strconv.ParseInt(port, 10, 64)
			role, err := middle.rdb.Do(t.Context(), "ROLE").Slice()
			if err != nil || len(role) != 5 || !slices.Equal(role[:4], []any{"slave", host, n, "connected"}) {
				t.Errorf("ROLE is %v, %v", role, err)
			}

			step("the middle becomes the master")
			full := middle.copies(t)
			if err := middle.rdb.ReplicaOf(t.Context(), "NO", "ONE").Err(); err != nil {
				t.Fatal(err)
			}
			if got := middle.info(t); got["master_replid2"] != want["master_replid"] || got["master_replid"] == want["master_replid"] {
				t.Errorf("the former ID is %v, the middle has %v", want["master_replid"], got)
			}
			if err := middle.rdb.Set(t.Context(), "written", "here", 0).Err(); err != nil {
				t.Fatal(err)
			}
			await.Until(t, time.Minute, "the last comes again", func() bool { return last.info(t)["master_replid"] == middle.info(t)["master_replid"] })
			equal(t, middle, last)
			if now := middle.copies(t); now != full {
				t.Errorf("%d copies of all keys, %d before", now, full)
			}
			step("the former master follows")
			master.follow(t, middle)
			equal(t, middle, master)
		})
	}
}
