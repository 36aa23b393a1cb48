package dashboard

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/bloom"
	bloomwire "github.com/redoubt-go/redoubt/internal/wire/bloom"
)

func decimal(n int64) string { return strconv.FormatInt(n, 10) }

// errNotAllowed is the error of a view that the user may not see.
var errNotAllowed = refuse(http.StatusForbidden, "this user may not see this view")

const (
	// bloomsPerPage is how many filters one reading of a page counts anew. To count the bits of a filter
	// takes the server a millisecond for each key of 4 MiB.
	bloomsPerPage = 4
	// bloomEvery is how old the count of a filter gets at least. It gets a hundred times older than it took.
	bloomEvery = 10 * time.Second
)

// A bloomState is what is known of a filter.
type bloomState struct {
	info bloom.Info
	err  error
	next time.Time // when to count again
}

// bloomStates keeps the counts of filters: of those on the pages that somebody looks at.
type bloomStates struct {
	mu  sync.Mutex
	all map[string]bloomState
}

// countBlooms counts some of the filters anew that are to be shown.
func (l *reading) countBlooms(names []string) error {
	filters, err := bloom.New(l.s.Client, bloom.Options{})
	if err != nil {
		return err
	}
	states := &l.s.blooms
	states.mu.Lock()
	defer states.mu.Unlock()
	if states.all == nil || len(states.all) > 20*pageRows {
		states.all = map[string]bloomState{}
	}
	due := slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		return !l.may(kindBloom, name) || time.Now().Before(states.all[name].next)
	})
	// The ones that have waited longest come first: later rows of a page would never have their turn otherwise.
	slices.SortStableFunc(due, func(a, b string) int { return states.all[a].next.Compare(states.all[b].next) })
	for _, name := range due[:min(len(due), bloomsPerPage)] {
		var st bloomState
		began := time.Now()
		st.info, st.err = bloomInfo(l.ctx, filters, name)
		st.next = began.Add(max(bloomEvery, 100*time.Since(began)))
		if st.err != nil && isDown(st.err) && !errors.Is(st.err, bloom.ErrNotFound) {
			return st.err
		}
		states.all[name] = st
	}
	return nil
}

// bloomRow is what was counted of a filter.
func bloomRow(l *reading, name string, _ []redoubt.Reply) (map[string]any, error) {
	l.s.blooms.mu.Lock()
	st, known := l.s.blooms.all[name]
	l.s.blooms.mu.Unlock()
	row := map[string]any{"kind": "bloom"}
	switch {
	case errors.Is(st.err, bloom.ErrNotFound):
		return nil, nil //nolint:nilnil // no row
	case st.err != nil:
		return nil, st.err
	case known:
		i := st.info
		row["capacity"], row["errorRate"] = i.Spec.Capacity, i.Spec.ErrorRate
		row["items"], row["fill"], row["estimatedError"] = i.Items, i.FillRatio, i.ErrorRate
		row["bytes"], row["layers"], row["lost"], row["rebuilding"] = i.Bytes, i.Shards, i.Lost, i.Rebuilding
	}
	return row, nil
}

func chainCmds(_ *redoubt.Client, key string) ([]redoubt.Cmd, error) {
	return []redoubt.Cmd{bloomwire.ChainHeaderCmd(key)}, nil
}

// chainRow is the row of a filter of the BF commands. Its fill and error follow from the number of items.
func chainRow(_ *reading, _ string, r []redoubt.Reply) (map[string]any, error) {
	status, i, err := bloomwire.ReadHeader(r[0])
	if err != nil || status != bloomwire.ChainDone {
		return nil, err
	}
	return map[string]any{
		"kind": "chain", "capacity": i.Capacity, "errorRate": part(i.ErrorRate), "items": i.Items, "fill": part(i.FillRatio),
		"estimatedError": part(i.EstimatedError), "bytes": i.Size, "layers": i.Links, "lost": false, "rebuilding": false,
	}, nil
}

// part is v, or nil if v is no part of a whole: other programs may write anything.
func part(v float64) any {
	if v >= 0 && v <= 1 {
		return v
	}
	return nil
}

func bloomInfo(ctx context.Context, filters *bloom.Filters, name string) (bloom.Info, error) {
	f, err := filters.Open(ctx, name, bloom.Spec{})
	if err != nil {
		return bloom.Info{}, err
	}
	return f.Info(ctx)
}

// poolRows has one row: the pool. A user who may not SLOWLOG GET sees which commands were slow, without
// their arguments.
func (l *reading) poolRows() ([]any, error) {
	if l.s.Pool == nil {
		return []any{}, nil
	}
	if !l.user.May("INFO") {
		return nil, errNotAllowed
	}
	whole := l.user.May("SLOWLOG", "GET")
	p := l.s.Pool()
	hot, slow := []any{}, []any{}
	for _, k := range p.HotKeys {
		k.Key = printable(k.Key)
		hot = append(hot, k)
	}
	for _, c := range p.SlowLog {
		if !whole {
			c.Args, c.Client = c.Args[:min(1, len(c.Args))], ""
		}
		args := make([]string, len(c.Args))
		for i, a := range c.Args {
			args[i] = printable(a)
		}
		c.Args = args
		slow = append(slow, c)
	}
	return []any{map[string]any{
		"name": l.s.Name, "servers": p.Servers, "hotkeys": hot, "slowlog": slow, "slowArgs": whole, "latency": p.Latency,
		"p50": p.Latency.Quantile(0.5), "p99": p.Latency.Quantile(0.99),
	}}, nil
}

// engineRows has one row: the engine, or the Redis server. A number that the server does not tell is null.
func (l *reading) engineRows() ([]any, error) {
	if !l.user.May("INFO") {
		return nil, errNotAllowed
	}
	if len(l.info) == 0 {
		return []any{}, nil
	}
	i := l.info
	row := map[string]any{
		"memory": i.orNil("used_memory"), "peak": i.orNil("used_memory_peak"), "maxMemory": i.orNil("maxmemory"), "policy": i["maxmemory_policy"],
		"rss": i.orNil("used_memory_rss"), "keys": i.int("keys"), "logSize": i.orNil("aof_current_size"), "logBase": i.orNil("aof_base_size"),
		"fsync": i["aof_fsync"], "saves": i["aof_enabled"] == "1", "compacting": i["aof_rewrite_in_progress"] == "1",
		"compactions": i.orNil("aof_rewrites"), "lastSyncMs": i.orNil("aof_last_sync_age_ms"),
		"evicted": i.orNil("evicted_keys"), "expired": i.orNil("expired_keys"), "lastError": "",
		"version": i["redis_version"], "engine": i["redoubt_engine"] == "1", "hits": i.orNil("keyspace_hits"), "misses": i.orNil("keyspace_misses"),
	}
	if l.s.names != nil {
		row["keysByType"] = l.s.names.types()
	}
	switch {
	case l.s.SaveErr != nil && l.s.SaveErr() != nil:
		row["lastError"] = l.s.SaveErr().Error()
	case i["aof_last_write_status"] == "err":
		row["lastError"] = "the last write of the log failed"
	case i["aof_last_bgrewrite_status"] == "err":
		row["lastError"] = "the last compaction of the log failed"
	}
	return []any{row}, nil
}

func contains(s, q string) bool { return strings.Contains(strings.ToLower(s), strings.ToLower(q)) }
