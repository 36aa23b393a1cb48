package scan_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/redoubt-go/redoubt/internal/test/redistest"
	"github.com/redoubt-go/redoubt/internal/test/testenv"
	"github.com/redoubt-go/redoubt/scan"
)

// Promise: A Report has the biggest of the keys that it measured, in bounded memory, and says by how much it
// may overestimate a prefix.
func TestReport(t *testing.T) { each(t, report) }

func report(t *testing.T, e *env) {
	ctx, s := t.Context(), e.scanner(scan.Options{Count: 50})
	e.pipelined(400, func(p redis.Pipeliner, i int) {
		p.Set(ctx, e.key("small", i), strings.Repeat("x", 1+i%7), 0)
	})
	e.pipelined(40, func(p redis.Pipeliner, i int) { // the last three are far apart, as an allocator rounds
		p.Set(ctx, e.key("big", i), strings.Repeat("x", 10_000<<max(0, 2*(i-36))), 0)
	})
	for i := range 300 {
		must(t, e.Redis.SAdd(ctx, e.key("set", 0), fmt.Sprint(i)).Err())
	}
	get := func(opts scan.ReportOptions) scan.Report {
		t.Helper()
		it, err := s.Keys(scan.Query{Match: e.Prefix + "*"})
		must(t, err)
		r, err := s.Report(ctx, it, opts)
		must(t, err)
		return r
	}

	pages := 0
	r := get(scan.ReportOptions{Top: 3, Each: func() { pages++ }})
	if r.Found != 441 || r.Measured != 441 || len(r.Keys) != 3 || r.Types["string"].Keys != 440 || r.Types["set"].Keys != 1 || pages < 2 {
		t.Errorf("%+v in %d pages", r, pages)
	}
	for i, k := range r.Keys {
		// The server's word on the size of a key.
		if want := e.Redis.MemoryUsage(ctx, k.Name).Val(); k.Name != e.key("big", 39-i) || k.Weight != want {
			t.Errorf("place %d has %+v; want %s with %d bytes", i, k, e.key("big", 39-i), want)
		}
	}
	if p := r.Prefixes[0]; p.Name != e.Prefix+"big:" || p.Keys != 40 || p.MaxError != 0 || p.Weight < 40*10_000 {
		t.Errorf("the heaviest prefix is %+v", p)
	}

	if r.Unprefixed != (scan.Sum{}) {
		t.Errorf("keys without a prefix: %+v", r.Unprefixed)
	}
	if r := get(scan.ReportOptions{By: scan.Elements, Separator: "set:"}); r.Unprefixed.Keys != 440 || r.Unprefixed.Weight != r.Weight-300 {
		t.Errorf("without a prefix: %+v of %d", r.Unprefixed, r.Weight)
	}

	r = get(scan.ReportOptions{By: scan.Elements})
	if r.Keys[0] != (scan.Key{Name: e.key("big", 39), Type: "string", Weight: 640_000}) || r.Types["set"] != (scan.Sum{Keys: 1, Weight: 300}) {
		t.Errorf("by elements: %+v", r.Keys[0])
	}

	// Without the three that are far apart it has a third of the bytes.
	whole, part := get(scan.ReportOptions{}), get(scan.ReportOptions{Sample: 0.5})
	if part.Found != 441 || part.Measured < 100 || part.Measured > 350 || part.Weight < whole.Weight/10 || part.Weight > 3*whole.Weight {
		t.Errorf("half of the keys: %d of %d measured, %d bytes; all have %d", part.Measured, part.Found, part.Weight, whole.Weight)
	}

	it, err := s.Keys(scan.Query{})
	must(t, err)
	for _, opts := range []scan.ReportOptions{{By: "size"}, {Top: -1}, {Top: 10_001}, {Sample: -0.1}, {Sample: 1.1}, {Depth: 11}, {Depth: -1}} {
		_, err := s.Report(ctx, it, opts)
		is(t, err, scan.ErrInvalidOption)
	}
}

// Promise: A Report has the biggest of the keys that it measured, in bounded memory, and says by how much it
// may overestimate a prefix.
func TestHeat(t *testing.T) {
	server := redistest.Start(t, "--maxmemory-policy", "allkeys-lfu", "--lfu-decay-time", "0",
		"--maxmemory", "100mb") // without a limit small integers share one object, and its counter
	e := newEnv(testenv.New(t, redistest.Backend{Addr: server.Addr()}))
	e.fill("cold", 200)
	e.fill("hot", 5)
	e.pipelined(5000, func(p redis.Pipeliner, i int) { p.Get(t.Context(), e.key("hot", i%5)) })
	s := e.scanner(scan.Options{})
	it, err := s.Keys(scan.Query{})
	must(t, err)
	r, err := s.Report(t.Context(), it, scan.ReportOptions{By: scan.Heat, Top: 5})
	must(t, err)
	if !slices.ContainsFunc(r.Keys, func(k scan.Key) bool { return k.Name == "hot:3" }) || r.Prefixes[0].Name != "hot:" {
		t.Errorf("the hottest are %+v, of %+v", r.Keys, r.Prefixes)
	}
	must(t, e.Redis.ConfigSet(t.Context(), "maxmemory-policy", "allkeys-lru").Err())
	it, err = s.Keys(scan.Query{})
	must(t, err)
	_, err = s.Report(t.Context(), it, scan.ReportOptions{By: scan.Heat})
	is(t, err, scan.ErrNoLFU)
	if n := r.Keys[0].Weight; n < 100 || n > 10_000 {
		t.Errorf("after 1,000 accesses a key is thought to have had %d", n)
	}
}

// Half of the keys is measured, by nested prefixes. The estimate assumes that the other half is like it.
func TestReportOfASample(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		ctx, s := t.Context(), e.scanner(scan.Options{})
		outer := e.Prefix + "half:"
		e.pipelined(1000, func(p redis.Pipeliner, i int) {
			p.Set(ctx, fmt.Sprint(outer, i%2, ":", i), "ten bytes.", 0)
		})
		it, err := s.Keys(scan.Query{Match: outer + "*"})
		must(t, err)
		r, err := s.Report(ctx, it, scan.ReportOptions{By: scan.Elements, Sample: 0.5, Depth: 2 + strings.Count(e.Prefix, ":")})
		must(t, err)
		about := func(got, want int64) bool { return got > want*3/4 && got < want*5/4 }
		if r.Found != 1000 || !about(r.Measured, 500) || !about(r.Weight, 10_000) || !about(r.Types["string"].Keys, 1000) {
			t.Errorf("%+v", r)
		}
		want := map[string]int64{outer: 1000, outer + "0:": 500, outer + "1:": 500}
		for _, p := range r.Prefixes {
			if keys, ok := want[p.Name]; ok && about(p.Keys, keys) && about(p.Weight, 10*keys) {
				delete(want, p.Name)
			}
		}
		if len(want) > 0 {
			t.Errorf("missing %v of %+v", want, r.Prefixes)
		}
	})
}
