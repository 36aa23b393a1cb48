package scan

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/keyslot"
)

// A node is a primary as it describes itself. A single server is a node that owns every slot.
type node struct {
	conn    redoubt.Conn
	id      string // in the cluster; of one server the same as process
	process string // run_id: another one after each restart
	epoch   uint64 // of two who think that they own a slot the greater is right
	owned   slots
	leaving map[int]string // slots on their way to another node, and its id
	keys    int64
}

// A snapshot is how all primaries describe themselves at about the same time.
type snapshot struct {
	cluster bool
	nodes   map[string]*node     // by id
	owner   [keyslot.Count]*node // nil: nobody
	keys    int64
}

// takeSnapshot asks all primaries, at the same time.
func takeSnapshot(ctx context.Context, client *redoubt.Client) (*snapshot, error) {
	conns, err := client.Primaries(ctx)
	if err != nil {
		return nil, err
	}
	nodes, errs := make([]*node, len(conns)), make([]error, len(conns))
	var wg sync.WaitGroup
	for i, conn := range conns {
		wg.Go(func() { nodes[i], errs[i] = describe(ctx, conn) })
	}
	wg.Wait()
	s := &snapshot{nodes: map[string]*node{}}
	for i, n := range nodes {
		if errs[i] != nil {
			return nil, errs[i]
		}
		s.nodes[n.id] = n
		s.cluster = s.cluster || n.id != n.process
		s.keys += n.keys
		for slot := range n.owned.all() {
			if other := s.owner[slot]; other == nil || other.epoch < n.epoch {
				s.owner[slot] = n
			}
		}
	}
	if len(nodes) > 1 && !s.cluster {
		return nil, errRing
	}
	return s, nil
}

// errRing: the servers have their own keys each, and a place in the scan is that of one server or of a slot.
var errRing = errors.New("scan: the Conn has several servers that are no cluster, like a Ring: scan each of its Primaries by a Client of its own")

var infoServer = redoubt.Cmd{Name: "INFO", Args: []string{"server"}, Flags: redoubt.ReadOnly}

// describe asks one primary for its state and its table of slots: one round trip, two on a cluster.
func describe(ctx context.Context, conn redoubt.Conn) (*node, error) {
	replies := conn.Pipeline(ctx, []redoubt.Cmd{infoServer, {Name: "DBSIZE", Flags: redoubt.ReadOnly}})
	info, err := replies[0].Text()
	if err != nil {
		return nil, fmt.Errorf("scan: INFO server: %w", err)
	}
	n := &node{conn: conn, process: infoField(info, "run_id")}
	if n.process == "" {
		return nil, errNameless
	}
	if n.keys, err = replies[1].Int(); err != nil {
		return nil, fmt.Errorf("scan: DBSIZE: %w", err)
	}
	if infoField(info, "redis_mode") != "cluster" && infoField(info, "server_mode") != "cluster" {
		n.id, n.owned = n.process, everySlot
		return n, nil
	}
	table, err := conn.Do(ctx, redoubt.Cmd{Name: "CLUSTER NODES", Flags: redoubt.ReadOnly}).Text()
	if err != nil {
		return nil, fmt.Errorf("scan: CLUSTER NODES: %w", err)
	}
	return n, n.readTable(table)
}

// infoField returns a field of INFO, "" when it is missing.
func infoField(info, name string) string {
	for line := range strings.Lines(info) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// readTable reads what a node says of itself in CLUSTER NODES:
//
//	<id> <address> myself,master - 0 0 <epoch> connected 0-5460 7000 [93->-<id>] [77-<-<id>]
//
// Only a node itself tells which slots are on their way from it, and it is the first to
// know what it owns.
func (n *node) readTable(table string) error {
	for line := range strings.Lines(table) {
		fields := strings.Fields(line)
		if len(fields) < 8 || !strings.Contains(fields[2], "myself") {
			continue
		}
		n.id, n.leaving = fields[0], map[int]string{}
		var err error
		if n.epoch, err = strconv.ParseUint(fields[6], 10, 64); err != nil {
			return fmt.Errorf("scan: CLUSTER NODES: %w", err)
		}
		for _, field := range fields[8:] {
			moving, ok := strings.CutPrefix(field, "[")
			if !ok {
				if err := n.owned.parse(field); err != nil {
					return fmt.Errorf("scan: CLUSTER NODES: %w", err)
				}
				continue
			}
			if number, to, leaves := strings.Cut(strings.TrimSuffix(moving, "]"), "->-"); leaves {
				slot, err := strconv.Atoi(number)
				if err != nil || slot < 0 || slot >= keyslot.Count {
					return fmt.Errorf("scan: CLUSTER NODES: %q is no slot", number)
				}
				n.leaving[slot] = to
			}
		}
		return nil
	}
	return fmt.Errorf("scan: CLUSTER NODES has no line about the node itself: %q", table)
}
