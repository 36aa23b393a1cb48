package scan_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redoubt-go/redoubt/scan"
)

const (
	tags   = 30 // slots in use
	perTag = 100
)

func (e *env) tagged(i int) string {
	return fmt.Sprintf("%s{%s%d}:%d", e.Prefix, e.Prefix, i%tags, i)
}

// fillTagged makes keys in a few slots, whose keys so take a while to move.
func (e *env) fillTagged() {
	e.T.Helper()
	e.pipelined(tags*perTag, func(p redis.Pipeliner, i int) { p.Set(e.T.Context(), e.tagged(i), i, 0) })
}

func (e *env) mustHaveTagged(given map[string]int) {
	e.T.Helper()
	missing, twice := 0, 0
	for i := range tags * perTag {
		switch given[e.tagged(i)] {
		case 0:
			missing++
		case 1:
		default:
			twice++
		}
	}
	if missing+twice > 0 {
		e.T.Errorf("of %d keys %d were not given, %d more than once", tags*perTag, missing, twice)
	}
}

// A key that is there the whole time is given although its slot goes from node to node,
// before or behind the cursors.
func movingSlots(t *testing.T, e *env) {
	e.fillTagged()
	moves := moving(t, e, tags)
	for round := range 3 {
		<-moves
		it, given := e.keys(scan.Options{Count: 5}, "{", ""), map[string]int{}
		for key, err := range it.All(t.Context()) {
			must(t, err)
			if given[key]++; len(given)%(20+40*round) == 0 {
				<-moves
			}
		}
		e.mustHaveTagged(given)
	}
}

// moving moves the slots of so many tags, all keys of one and then the next, and sends on the channel after
// each few keys.
func moving(t *testing.T, e *env, tags int) <-chan struct{} {
	t.Helper()
	nodes := make([]*redis.Client, 3)
	ids := make([]string, 3)
	for i, addr := range e.cluster.Addrs()[:3] {
		nodes[i] = redis.NewClient(&redis.Options{Addr: addr})
		ids[i] = nodes[i].ClusterMyID(t.Context()).Val()
	}
	moves, end, ended := make(chan struct{}), make(chan struct{}), make(chan struct{})
	ctx := context.WithoutCancel(t.Context())
	fault := func(err error) {
		if err != nil {
			t.Errorf("moving slots: %v", err)
		}
	}
	move := func(slot int, from, to int) (goOn bool) {
		setslot := func(node int, args ...any) {
			fault(nodes[node].Do(ctx, append([]any{"CLUSTER", "SETSLOT", slot}, args...)...).Err())
		}
		setslot(to, "IMPORTING", ids[from])
		setslot(from, "MIGRATING", ids[to])
		host, port, _ := net.SplitHostPort(nodes[to].Options().Addr)
		for goOn = true; ; {
			keys := nodes[from].ClusterGetKeysInSlot(ctx, slot, 25).Val()
			if len(keys) == 0 {
				break
			}
			args := []any{"MIGRATE", host, port, "", 0, 10_000, "KEYS"}
			for _, key := range keys {
				args = append(args, key)
			}
			fault(nodes[from].Do(ctx, args...).Err())
			if goOn {
				select {
				case moves <- struct{}{}:
				case <-end:
					goOn = false // leave no slot half moved
				}
			}
		}
		setslot(to, "NODE", ids[to])
		setslot(from, "NODE", ids[to])
		setslot(3-from-to, "NODE", ids[to])
		fault(agreed(ctx, nodes))
		return goOn
	}
	where := map[int]int{}
	for i := range tags {
		slot := int(e.Redis.ClusterKeySlot(ctx, e.tagged(i)).Val())
		for n, node := range nodes {
			if len(node.ClusterGetKeysInSlot(ctx, slot, 1).Val()) > 0 {
				where[slot] = n
			}
		}
	}
	go func() {
		defer close(ended)
		for step := 1; ; step = 3 - step {
			for slot, from := range where {
				to := (from + step) % 3
				where[slot] = to
				if !move(slot, from, to) {
					return
				}
			}
		}
	}()
	t.Cleanup(func() {
		close(end)
		<-ended
		for _, node := range nodes {
			_ = node.Close()
		}
	})
	return moves
}

// agreed returns once all nodes know each other's epochs. A node that doesn't know them may
// import a slot with a smaller epoch than the old owner's. The old owner's next message then
// takes the slot away, and no node owns it any more.
func agreed(ctx context.Context, nodes []*redis.Client) error {
	pace := time.NewTicker(time.Millisecond)
	defer pace.Stop()
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); <-pace.C {
		views := map[string]bool{}
		for _, node := range nodes {
			var view []string
			for line := range strings.Lines(node.ClusterNodes(ctx).Val()) {
				if f := strings.Fields(line); len(f) > 6 {
					view = append(view, f[0]+" "+f[6])
				}
			}
			slices.Sort(view)
			views[strings.Join(view, ",")] = true
		}
		if len(views) == 1 {
			return nil
		}
	}
	return errors.New("the nodes don't agree")
}

// The elements of a key are given although it goes to another node, where its cursor
// means nothing.
func movingKey(t *testing.T, e *env) {
	const n = 1500
	key := e.tagged(0)
	e.pipelined(n, func(p redis.Pipeliner, i int) { p.SAdd(t.Context(), key, fmt.Sprint(i)) })
	moves := moving(t, e, 1)
	it, err := e.scanner(scan.Options{Count: 10}).Set(key, scan.ElementQuery{})
	must(t, err)
	given := map[string]int{}
	for member, err := range it.All(t.Context()) {
		must(t, err)
		if given[member]++; len(given) == 100 || len(given) == 1000 {
			<-moves
			<-moves
		}
	}
	if len(given) != n {
		t.Errorf("%d members; want %d", len(given), n)
	}
	for member, times := range given {
		if times > 1 {
			t.Fatalf("%s was given %d times", member, times)
		}
	}
}

// A token stays good when slots have moved.
func resumeAfterMove(t *testing.T, e *env) {
	e.fillTagged()
	moves := moving(t, e, tags)
	given, token := map[string]int{}, ""
	for again := true; again; {
		it := e.keys(scan.Options{Count: 20}, "{", token)
		again = false
		n := 0
		for page, err := range it.Pages(t.Context()) {
			must(t, err)
			if n++; n > 10 {
				again = true
				break
			}
			for _, key := range page {
				given[key]++
			}
		}
		token = it.Token()
		<-moves
		<-moves
	}
	for key := range given {
		given[key] = 1 // what is remembered is not in the token
	}
	e.mustHaveTagged(given)
}
