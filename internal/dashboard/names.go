package dashboard

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redoubt-go/redoubt"
)

const (
	// scanCount is how many keys one SCAN looks at, which takes a server less than a millisecond.
	scanCount = 1000
	// scansPerTurn is how many SCANs one turn of the scan sends at most.
	scansPerTurn = 10
	// turnTime ends a turn early on a slow server.
	turnTime = 200 * time.Millisecond
	// maxNames is how many names of a kind are kept. More are counted only.
	maxNames = 50_000
)

// A kind is a primitive, as the layout of a key tells it.
type kind byte

const (
	kindLock kind = iota
	kindSemaphore
	kindLatch
	kindLimit
	kindQueue
	kindStock
	kindBloom
	kindCache // its names are the names of caches, not of their entries
	kindOther // names of other primitives

	// These keys have no mark of ours. They are known by the commands that this process has run.
	kindThrottle // keys of CL.THROTTLE
	kindChain    // keys of BF commands

	kinds
)

// parts are the last parts of the keys that stand for a name.
var parts = map[string]kind{
	"lock": kindLock, "readers": kindLock,
	"sem": kindSemaphore, "permits": kindSemaphore,
	"latch": kindLatch,
	"limit": kindLimit, "gcra": kindLimit, "window": kindLimit, "quota": kindLimit, "calls": kindLimit,
	"queue": kindQueue, "queue:config": kindQueue,
	"stock": kindStock,
	"bloom": kindBloom,
	"cache": kindCache,
	"fence": kindOther, "ttlhash": kindOther, "state": kindOther, "map": kindOther, "calendar": kindOther,
	"record": kindOther, "sliding": kindOther,
}

// classify returns the kind and the name of a key of the given prefix, which ends in ":{".
func classify(prefix, key string) (k kind, name string, ok bool) {
	rest, ok := strings.CutPrefix(key, prefix)
	end := strings.LastIndex(rest, "}:")
	if !ok || end < 1 || end > redoubt.MaxName { // others may have keys like ours
		return 0, "", false
	}
	name, part := rest[:end], rest[end+2:]
	if k, ok = parts[part]; !ok { // limits of one client end in its id
		part, _, _ = strings.Cut(part, ":")
		if k, ok = parts[part]; ok && k != kindLimit {
			return 0, "", false
		}
	}
	if ok && k == kindCache {
		name, _, _ = strings.Cut(name, ":")
	}
	return k, name, ok
}

// names is the index of the names of one source. One scan finds them for everybody who looks. All fields
// below mu are guarded by it; turn guards the scan itself, so that readers never wait for the server.
type names struct {
	client *redoubt.Client
	prefix string

	turn    sync.Mutex
	conns   []redoubt.Conn // the primaries of this pass; nil between passes
	partial bool           // a primary is missing
	node    int
	cursor  string

	mu     sync.Mutex
	pass   uint32
	sets   [kinds]nameSet
	seen   int64 // keys, in this pass
	keys   int64 // of the servers when the pass began
	passes int   // that ended
	last   int64 // keys seen in the last whole pass

	sample typeSample
}

func newNames(client *redoubt.Client) *names {
	key, _ := client.Key("n", "p") // a valid name
	n := &names{client: client, prefix: strings.TrimSuffix(key, "n}:p"), pass: 1}
	for i := range n.sets {
		n.sets[i].seen = map[string]*found{}
	}
	return n
}

// A found is when a name was seen, and how often in that pass.
type found struct {
	pass uint32
	keys int64 // seen in that pass
	last int64 // seen in the pass before
}

// A nameSet has the names of one kind.
type nameSet struct {
	seen   map[string]*found
	sorted []string
	added  []string // not in sorted yet
	more   int64    // keys of names beyond maxNames, in this pass
	was    int64    // more of the last whole pass
}

// advance scans on, with at most scansPerTurn SCANs and, at the beginning of a pass, one more command for
// each primary. It does nothing while another caller scans.
func (n *names) advance(ctx context.Context) error {
	if !n.turn.TryLock() {
		return nil
	}
	defer n.turn.Unlock()
	began := time.Now()
	if n.conns == nil {
		if err := n.begin(ctx); err != nil {
			return err
		}
	}
	defer n.typesOfTurn(ctx)
	for range scansPerTurn {
		done, err := n.step(ctx)
		if err != nil {
			n.conns = nil // the primaries may have changed: this pass begins anew and forgets nothing
			return err
		}
		if done || time.Since(began) > turnTime {
			break
		}
	}
	return nil
}

func (n *names) begin(ctx context.Context) error {
	conns, err := n.client.Primaries(ctx)
	if err != nil {
		return err
	}
	keys := int64(0)
	var up []redoubt.Conn
	for _, c := range conns {
		size, sizeErr := c.Do(ctx, redoubt.Cmd{Name: "DBSIZE", Flags: redoubt.ReadOnly}).Int()
		if sizeErr != nil {
			err = sizeErr
			continue
		}
		up, keys = append(up, c), keys+size
	}
	if len(up) == 0 {
		return err
	}
	n.conns, n.partial, n.node, n.cursor = up, len(up) < len(conns), 0, "0"
	n.mu.Lock()
	defer n.mu.Unlock()
	n.pass++
	n.seen, n.keys = 0, keys
	for i := range n.sets {
		n.sets[i].more = 0
	}
	return nil
}

// step sends one SCAN. done: a pass has ended.
func (n *names) step(ctx context.Context) (done bool, err error) {
	page, err := n.conns[n.node].Do(ctx, redoubt.Cmd{
		Name: "SCAN", Args: []string{n.cursor, "COUNT", strconv.Itoa(scanCount)}, Flags: redoubt.ReadOnly,
	}).Array()
	if err != nil {
		return false, err
	}
	if len(page) != 2 {
		return false, errShape
	}
	if n.cursor, err = (redoubt.Reply{Val: page[0]}).Text(); err != nil {
		return false, err
	}
	keys, err := redoubt.Reply{Val: page[1]}.Array()
	if err != nil {
		return false, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, v := range keys {
		if key, ok := v.(string); ok {
			n.add(key)
			n.sample.see(key)
		}
	}
	n.seen += int64(len(keys))
	if n.cursor != "0" {
		return false, nil
	}
	if n.node++; n.node < len(n.conns) {
		return false, nil
	}
	n.conns = nil
	n.end()
	return true, nil
}

func (n *names) add(key string) {
	k, name, ok := classify(n.prefix, key)
	if !ok {
		return
	}
	s := &n.sets[k]
	f := s.seen[name]
	switch {
	case f != nil:
	case len(s.seen) >= maxNames:
		s.more++
		return
	default:
		name = strings.Clone(name)
		f = &found{}
		s.seen[name] = f
		s.added = append(s.added, name)
	}
	if f.pass != n.pass {
		f.pass, f.keys = n.pass, 0
	}
	f.keys++
}

// end forgets the names that the pass did not find.
func (n *names) end() {
	for i := range n.sets {
		s := &n.sets[i]
		s.merge()
		s.was = s.more
		s.sorted = slices.DeleteFunc(s.sorted, func(name string) bool {
			f := s.seen[name]
			f.last = f.keys
			if f.pass != n.pass && !n.partial {
				delete(s.seen, name)
				return true
			}
			return false
		})
	}
	n.passes++
	n.last = n.seen
	n.sample.ended = true
}

// merge sorts added into sorted.
func (s *nameSet) merge() {
	if len(s.added) == 0 {
		return
	}
	slices.Sort(s.added)
	all := make([]string, 0, len(s.sorted)+len(s.added))
	old := s.sorted
	for _, name := range s.added {
		at, _ := slices.BinarySearch(old, name)
		all = append(append(all, old[:at]...), name)
		old = old[at:]
	}
	s.sorted, s.added = append(all, old...), nil
}

// after returns at most most names of a kind that follow one and contain q, a text in lower case. more:
// there may be others after them.
func (n *names) after(k kind, last, q string, most int) (list []string, more bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	s := &n.sets[k]
	s.merge()
	return pageOf(s.sorted, last, q, most)
}

// pageOf is [names.after] for a sorted list.
func pageOf(sorted []string, last, q string, most int) (list []string, more bool) {
	at, is := slices.BinarySearch(sorted, last)
	if is && last != "" {
		at++
	}
	for _, name := range sorted[at:] {
		if q != "" && !strings.Contains(strings.ToLower(name), q) {
			continue
		}
		if len(list) == most {
			return list, true
		}
		list = append(list, name)
	}
	return list, false
}

// entries returns how many keys were found for a name, in the last whole pass or so far.
func (n *names) entries(k kind, name string) int64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	f := n.sets[k].seen[name]
	if f == nil {
		return 0
	}
	return max(f.keys, f.last)
}

// A scanState says how far the scan is.
type scanState struct {
	Keys int64 `json:"keys"`
	Seen int64 `json:"seen"`
	Done bool  `json:"done"` // a whole pass has ended
}

// state returns how far the scan is and how many names of each kind it has found.
func (n *names) state() (scanState, map[string]int64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	counts := map[string]int64{}
	for k, word := range countWords[:kindThrottle] {
		s := &n.sets[k]
		counts[word] = int64(len(s.seen)) + max(s.more, s.was)
	}
	st := scanState{Keys: n.keys, Seen: n.seen, Done: n.passes > 0}
	if st.Done {
		st.Seen = max(st.Seen, n.last)
	}
	return st, counts
}

// countWords are the names of the kinds in a snapshot.
var countWords = [kinds]string{
	kindLock: "locks", kindSemaphore: "semaphores", kindLatch: "latches", kindLimit: "limits", kindQueue: "queues",
	kindStock: "stock", kindBloom: "bloom", kindCache: "caches", kindOther: "other", kindThrottle: "throttles", kindChain: "chains",
}
