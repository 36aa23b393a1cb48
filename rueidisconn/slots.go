package rueidisconn

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/conn"
)

const (
	// lookTimeout bounds one look at a cluster's slots.
	lookTimeout = 2 * time.Second
	// lookAgain is the least time between two looks that nobody waits for.
	lookAgain = 100 * time.Millisecond

	slotCount = 1 << 14
)

// slots are a cluster's: which primary owns which. rueidis has such a table too, but shows it to nobody.
type slots struct {
	client rueidis.Client
	table  atomic.Pointer[table] // nil until the first look

	mu    sync.Mutex
	look  *look     // under way
	last  time.Time // when the last look ended
	again bool      // another look will begin soon
}

// A table is what one look at a cluster found.
type table struct {
	owner [slotCount]*node
	nodes []*node // that own slots, ordered by address
}

// A node is a primary.
type node struct {
	addr   string
	client rueidis.Client // nil while rueidis doesn't know the node
	slot   uint16         // one that it owns
}

type look struct {
	done chan struct{}
	err  error
}

// crc is the table of CRC16-XMODEM, the checksum of the specification of Redis Cluster.
var crc = func() (t [256]uint16) {
	for i := range t {
		c := uint16(i) << 8
		for range 8 {
			if c&0x8000 != 0 {
				c = c<<1 ^ 0x1021
			} else {
				c <<= 1
			}
		}
		t[i] = c
	}
	return t
}()

// slotOf returns the hash slot of key: of its {tag}, if it has one that is not empty.
func slotOf(key string) uint16 {
	if _, behind, ok := strings.Cut(key, "{"); ok {
		if tag, _, ok := strings.Cut(behind, "}"); ok && tag != "" {
			key = tag
		}
	}
	sum := uint16(0)
	for i := range len(key) {
		sum = sum<<8 ^ crc[byte(sum>>8)^key[i]]
	}
	return sum % slotCount
}

// begin looks at the cluster, unless a look is under way.
func (s *slots) begin() *look {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.look != nil {
		return s.look
	}
	l := &look{done: make(chan struct{})}
	s.look = l
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), lookTimeout)
		t, err := s.read(ctx)
		cancel()
		if err == nil {
			s.table.Store(t)
		}
		s.mu.Lock()
		s.look, s.last = nil, time.Now()
		s.mu.Unlock()
		l.err = err
		close(l.done)
	}()
	return l
}

// next looks at the cluster after the look under way.
func (s *slots) next() *look {
	s.mu.Lock()
	l := s.look
	s.mu.Unlock()
	if l != nil {
		<-l.done
	}
	return s.begin()
}

// refresh has the table looked up again, in the background and at most a few times a second. A look under way
// may have missed the change, so another follows it.
func (s *slots) refresh() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.again {
		return
	}
	s.again = true
	time.AfterFunc(lookAgain-time.Since(s.last), func() {
		s.mu.Lock()
		s.again = false
		s.mu.Unlock()
		s.next()
	})
}

// refresh is for a Conn that may not be a cluster's.
func (c *Conn) refresh() {
	if c.slots != nil {
		c.slots.refresh()
	}
}

// read asks the cluster for its slots.
func (s *slots) read(ctx context.Context) (*table, error) {
	r := s.client.Do(ctx, command(s.client, "CLUSTER", "SLOTS").SetSlot(strconv.Itoa(rand.IntN(slotCount)))) //nolint:gosec // any node will do
	ranges, err := r.ToArray()
	if err != nil {
		return nil, fmt.Errorf("rueidisconn: the cluster's slots: %w", err)
	}
	clients := s.client.Nodes()
	t := new(table)
	known := make(map[string]*node)
	for _, m := range ranges {
		// first slot, last slot, the primary [host, port, id, …], its replicas
		f, ok := value(m).([]any)
		if !ok || len(f) < 3 {
			continue
		}
		first, _ := f[0].(int64)
		last, _ := f[1].(int64)
		primary, _ := f[2].([]any)
		if len(primary) < 2 || first < 0 || last >= slotCount {
			continue
		}
		host, _ := primary[0].(string)
		port, _ := primary[1].(int64)
		addr := net.JoinHostPort(host, strconv.FormatInt(port, 10))
		n := known[addr]
		if n == nil {
			n = &node{addr: addr, client: clients[addr], slot: uint16(first)} //nolint:gosec // checked
			known[addr] = n
			t.nodes = append(t.nodes, n)
		}
		for i := first; i <= last; i++ {
			t.owner[i] = n
		}
	}
	slices.SortFunc(t.nodes, func(a, b *node) int { return cmp.Compare(a.addr, b.addr) })
	return t, nil
}

// route sets an item's node and returns the client to send it by.
func (c *Conn) route(it *item) rueidis.Client {
	it.node = nil
	if it.route == "" && it.keyPos == 0 {
		it.route = strconv.Itoa(rand.IntN(slotCount)) //nolint:gosec // any node will do
	}
	if it.redirected {
		return c.client
	}
	t := c.slots.table.Load()
	if t == nil {
		<-c.slots.begin().done
		if t = c.slots.table.Load(); t == nil {
			return c.client
		}
	}
	n := t.owner[slotOf(it.route)]
	if n == nil || n.client == nil {
		c.refresh()
		return c.client
	}
	it.node = n
	return n.client
}

// Node names the primary that owns key, as host:port, and "" when the Conn is not a cluster's. It looks in a
// table of slots, which may lag behind the cluster by moments, and never waits: until that table is there,
// for which the first call asks, it returns "".
func (c *Conn) Node(key string) string {
	if c.slots == nil {
		return ""
	}
	t := c.slots.table.Load()
	if t == nil {
		c.refresh()
		return ""
	}
	if n := t.owner[slotOf(key)]; n != nil {
		return n.addr
	}
	return ""
}

// Primaries returns a Conn for each primary of a cluster, ordered by address, after a fresh look at the
// cluster; elsewhere it returns c itself. Commands on these Conns don't follow redirects: what a primary
// doesn't own is an error.
func (c *Conn) Primaries(ctx context.Context) ([]redoubt.Conn, error) {
	if c.slots == nil {
		return []redoubt.Conn{c}, nil
	}
	t, err := c.slots.fresh(ctx)
	if err != nil {
		return nil, err
	}
	conns := make([]redoubt.Conn, len(t.nodes))
	for i, n := range t.nodes {
		conns[i] = newConn(n.client)
	}
	return conns, nil
}

// fresh looks at the cluster until rueidis knows all of its primaries.
func (s *slots) fresh(ctx context.Context) (*table, error) {
	var p conn.Pauses
	for {
		looked := make(chan error, 1)
		go func() {
			l := s.next()
			<-l.done
			looked <- l.err
		}()
		var err error
		select {
		case err = <-looked:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		if err == nil {
			t := s.table.Load()
			unknown := slices.IndexFunc(t.nodes, func(n *node) bool { return n.client == nil })
			if unknown < 0 {
				return t, nil
			}
			err = fmt.Errorf("rueidisconn: the client does not know the primary %s yet", t.nodes[unknown].addr)
			s.introduce(ctx, t.nodes[unknown])
		}
		if end := p.Wait(ctx); end != nil {
			return nil, conn.Stopped(end, err)
		}
	}
}

// introduce has rueidis meet a node, by a MOVED that leads there.
func (s *slots) introduce(ctx context.Context, n *node) {
	for i := 0; ; i++ {
		if key := strconv.Itoa(i); slotOf(key) == n.slot {
			ctx, cancel := context.WithTimeout(ctx, lookTimeout)
			defer cancel()
			_ = s.client.Do(ctx, s.client.B().Arbitrary("EXISTS").Keys(key).Build()).Error()
			return
		}
	}
}
