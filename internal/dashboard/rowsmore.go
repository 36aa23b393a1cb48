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

	"github.com/redoubt-go/redoubt/bloom"
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

// bloomRows reads a page of filters.
func (l *look) bloomRows() (rows []any, next string, err error) {
	if l.s.names == nil {
		return nil, "", errNoCommands
	}
	_, last, err := l.cursor([]kind{kindBloom})
	if err != nil {
		return nil, "", err
	}
	filters, err := bloom.New(l.s.Client, bloom.Options{})
	if err != nil {
		return nil, "", err
	}
	names, more := l.s.names.after(kindBloom, last, l.q, pageRows)
	if more {
		next = ref("0" + names[len(names)-1])
	}
	states := &l.s.blooms
	states.mu.Lock()
	defer states.mu.Unlock()
	if states.all == nil || len(states.all) > 20*pageRows {
		states.all = map[string]bloomState{}
	}
	names = slices.DeleteFunc(names, func(name string) bool { return !l.may(kindBloom, name) })
	due := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return time.Now().Before(states.all[name].next) })
	// The ones that have waited longest come first: later rows of a page would never have their turn otherwise.
	slices.SortStableFunc(due, func(a, b string) int { return states.all[a].next.Compare(states.all[b].next) })
	for _, name := range due[:min(len(due), bloomsPerPage)] {
		var st bloomState
		began := time.Now()
		st.info, st.err = bloomInfo(l.ctx, filters, name)
		st.next = began.Add(max(bloomEvery, 100*time.Since(began)))
		if st.err != nil && isDown(st.err) && !errors.Is(st.err, bloom.ErrNotFound) {
			return nil, "", st.err
		}
		states.all[name] = st
	}
	rows = []any{}
	for _, name := range names {
		st, known := states.all[name]
		if errors.Is(st.err, bloom.ErrNotFound) {
			continue
		}
		row := map[string]any{"name": printable(name), "ref": ref(name)}
		switch {
		case st.err != nil:
			row["error"] = st.err.Error()
		case known:
			i := st.info
			row["capacity"], row["errorRate"] = i.Spec.Capacity, i.Spec.ErrorRate
			row["items"], row["fill"], row["estimatedError"] = i.Items, i.FillRatio, i.ErrorRate
			row["bytes"], row["layers"], row["lost"], row["rebuilding"] = i.Bytes, i.Shards, i.Lost, i.Rebuilding
		}
		rows = append(rows, row)
	}
	return rows, next, nil
}

func bloomInfo(ctx context.Context, filters *bloom.Filters, name string) (bloom.Info, error) {
	f, err := filters.Open(ctx, name, bloom.Spec{})
	if err != nil {
		return bloom.Info{}, err
	}
	return f.Info(ctx)
}

// poolRows has one row: the pool.
func (l *look) poolRows() (rows []any, next string, err error) {
	if l.s.Pool == nil {
		return []any{}, "", nil
	}
	if !l.user.May("INFO") || !l.user.May("SLOWLOG", "GET") {
		return nil, "", errNotAllowed
	}
	p := l.s.Pool()
	hot, slow := []any{}, []any{}
	for _, k := range p.HotKeys {
		k.Key = printable(k.Key)
		hot = append(hot, k)
	}
	for _, c := range p.SlowLog {
		args := make([]string, len(c.Args))
		for i, a := range c.Args {
			args[i] = printable(a)
		}
		c.Args = args
		slow = append(slow, c)
	}
	return []any{map[string]any{
		"name": l.s.Name, "servers": p.Servers, "hotkeys": hot, "slowlog": slow, "latency": p.Latency,
		"p50": p.Latency.Quantile(0.5), "p99": p.Latency.Quantile(0.99),
	}}, "", nil
}

// engineRows has one row: the engine, or the Redis server. A number that the server does not tell is null.
func (l *look) engineRows() (rows []any, next string, err error) {
	if !l.user.May("INFO") {
		return nil, "", errNotAllowed
	}
	if len(l.info) == 0 {
		return []any{}, "", nil
	}
	i := l.info
	row := map[string]any{
		"memory": i.orNil("used_memory"), "peak": i.orNil("used_memory_peak"), "maxMemory": i.orNil("maxmemory"), "policy": i["maxmemory_policy"],
		"rss": i.orNil("used_memory_rss"), "keys": i.int("keys"), "logSize": i.orNil("aof_current_size"), "logBase": i.orNil("aof_base_size"),
		"fsync": i["aof_fsync"], "saves": i["aof_enabled"] == "1", "compacting": i["aof_rewrite_in_progress"] == "1",
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
	return []any{row}, "", nil
}

func contains(s, q string) bool { return strings.Contains(strings.ToLower(s), strings.ToLower(q)) }
