package matrix

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/bitmap"
	"github.com/redoubt-go/redoubt/bloom"
	"github.com/redoubt-go/redoubt/geo"
	"github.com/redoubt-go/redoubt/hll"
	"github.com/redoubt-go/redoubt/internal/test/await"
	"github.com/redoubt-go/redoubt/scan"
	"github.com/redoubt-go/redoubt/ttlhash"
)

func (l *library) bloomFilter(t *testing.T, name string) {
	open := func(c *redoubt.Client) *bloom.Filter {
		filters, err := bloom.New(c, bloom.Options{})
		must(t, err)
		f, err := filters.Open(t.Context(), name, bloom.Spec{Capacity: 1000, ErrorRate: 0.01})
		must(t, err)
		return f
	}
	a, b := open(l.a), open(l.b)
	var in, out []string
	for i := range 500 {
		in, out = append(in, fmt.Sprint("in", i)), append(out, fmt.Sprint("out", i))
	}
	_, err := a.AddMany(t.Context(), in)
	must(t, err)
	isNew, err := a.Add(t.Context(), in[0])
	if isNew || err != nil {
		t.Errorf("what is in is new: %v", err)
	}
	all, err := b.MayContainMany(t.Context(), in)
	if len(all) != len(in) || slices.Contains(all, false) || err != nil {
		t.Errorf("of %d items %d answers: %v, %v", len(in), len(all), all, err)
	}
	others, err := b.MayContainMany(t.Context(), out)
	must(t, err)
	wrong := 0
	for _, may := range others {
		if may {
			wrong++
		}
	}
	if wrong > 50 { // a tenth, where a hundredth is promised
		t.Errorf("%d of %d that were never added", wrong, len(out))
	}
}

func (l *library) bitmaps(t *testing.T, name string) {
	a, err := bitmap.New(l.a, bitmap.Options{})
	must(t, err)
	b, err := bitmap.New(l.b, bitmap.Options{})
	must(t, err)
	changed, err := a.Set(t.Context(), name, 1, 1_000_000, 5_000_000_000, bitmap.MaxOffset)
	if changed != 4 || err != nil {
		t.Errorf("%d changed, %v", changed, err)
	}
	_, err = a.Set(t.Context(), name+"-other", 2, 1_000_000, 5_000_000_000)
	must(t, err)
	n, err := b.CountOf(t.Context(), bitmap.And, name, name+"-other")
	if n != 2 || err != nil {
		t.Errorf("%d in both, %v", n, err)
	}
	n, err = b.CountRange(t.Context(), name, 2, bitmap.MaxOffset)
	if n != 3 || err != nil {
		t.Errorf("%d in the range, %v", n, err)
	}

	days, err := bitmap.NewCalendars(l.a, bitmap.CalendarOptions{})
	must(t, err)
	first := bitmap.Date(2024, time.February, 28)
	_, _, err = days.Mark(t.Context(), name, first, first+1, first+2)
	must(t, err)
	days, err = bitmap.NewCalendars(l.b, bitmap.CalendarOptions{})
	must(t, err)
	c, err := days.Load(t.Context(), name)
	if c.Total() != 3 || !c.Marked(bitmap.Date(2024, time.February, 29)) || err != nil {
		t.Errorf("%v, %v", c, err)
	}

	records, err := bitmap.NewRecords(l.a, bitmap.RecordOptions{Fields: []bitmap.Field{{Name: "wins", Type: "u8"}, {Name: "level", Type: "u4", Overflow: bitmap.Fail}}})
	must(t, err)
	_, err = records.Update(t.Context(), name, bitmap.Incr("wins", 3), bitmap.Set("level", 15))
	must(t, err)
	if v, ok, err := records.Incr(t.Context(), name, "level", 1); ok || err != nil {
		t.Errorf("16 in four bits: %d, %v", v, err)
	}
	r, err := records.Load(t.Context(), name)
	must(t, err)
	if wins, _ := r.Get("wins"); wins != 3 {
		t.Errorf("%d wins", wins)
	}
}

func (l *library) visitors(t *testing.T, name string) {
	o := hll.Options{FlushEvery: time.Hour}
	a, err := hll.New(l.a, o)
	must(t, err)
	b, err := hll.New(l.b, o)
	must(t, err)
	at := time.Now()
	for i := range 1000 {
		must(t, a.AddAt(name, fmt.Sprint(i), at))
		must(t, b.AddAt(name+"-other", fmt.Sprint(i+500), at))
	}
	must(t, a.Close())
	must(t, b.Flush(t.Context()))
	for _, x := range []struct {
		pages []string
		want  int64
		views int64
	}{{[]string{name}, 1000, 1000}, {[]string{name, name + "-other"}, 1500, 2000}} {
		c, err := b.Between(t.Context(), at, at, x.pages...)
		if err != nil || c.Views != x.views || c.Visitors < x.want*95/100 || c.Visitors > x.want*105/100 {
			t.Errorf("%q: %+v, %v; want about %d visitors", x.pages, c, err, x.want)
		}
	}
	must(t, b.Close())
}

func (l *library) geoIndex(t *testing.T, name string) {
	open := func(c *redoubt.Client) *geo.Index {
		indexes, err := geo.New(c, geo.Options{})
		must(t, err)
		x, err := indexes.Open(t.Context(), name)
		must(t, err)
		return x
	}
	a, b := open(l.a), open(l.b)
	_, err := a.AddMany(t.Context(), []geo.Member{
		{Name: "gate", Point: geo.Point{Longitude: 13.3777, Latitude: 52.5163}},
		{Name: "cathedral", Point: geo.Point{Longitude: 13.4010, Latitude: 52.5190}},
		{Name: "opera", Point: geo.Point{Longitude: 151.2153, Latitude: -33.8568}},
	})
	must(t, err)
	near := func(q geo.Query, want ...string) {
		t.Helper()
		found, err := b.Near(t.Context(), q)
		must(t, err)
		var names []string
		for _, f := range found {
			names = append(names, f.Member)
		}
		if !slices.Equal(names, want) {
			t.Errorf("near are %q, want %q", names, want)
		}
	}
	near(geo.Query{Member: "gate", Radius: 5 * geo.Kilometre}, "gate", "cathedral")
	moved, err := a.Move(t.Context(), "cathedral", geo.Point{Longitude: 151.2, Latitude: -33.8})
	if !moved || err != nil {
		t.Errorf("moved %v, %v", moved, err)
	}
	near(geo.Query{Member: "gate", Radius: 5 * geo.Kilometre}, "gate")
	near(geo.Query{Member: "opera", Radius: 10 * geo.Kilometre}, "opera", "cathedral")
	d, ok, err := b.Dist(t.Context(), "gate", "opera")
	if d < 16_000*geo.Kilometre || d > 16_200*geo.Kilometre || !ok || err != nil {
		t.Errorf("%v, %v, %v", d, ok, err)
	}
}

func hashes(t *testing.T, c *redoubt.Client, o ttlhash.Options) *ttlhash.Hashes {
	t.Helper()
	h, err := ttlhash.New(c, o)
	must(t, err)
	return h
}

func (l *library) ttlHash(t *testing.T, name string) {
	a, b := hashes(t, l.a, ttlhash.Options{}), hashes(t, l.b, ttlhash.Options{})
	must(t, a.SetMany(t.Context(), name, []ttlhash.Item{
		{Field: "soon", Value: "1", TTL: 200 * time.Millisecond},
		{Field: "late", Value: "2", TTL: lease},
		{Field: "ever", Value: "3", TTL: ttlhash.Never},
	}))
	await.Until(t, prompt, "a field expires", func() bool {
		_, ok, err := b.Get(t.Context(), name, "soon")
		must(t, err)
		return !ok
	})
	if v, ok, err := b.Get(t.Context(), name, "late"); v != "2" || !ok || err != nil {
		t.Errorf("%q, %v, %v", v, ok, err)
	}
	await.Until(t, prompt, "it is not counted", func() bool {
		n, err := b.Len(t.Context(), name)
		must(t, err)
		return n == 2
	})
	if set, err := b.SetIfAbsent(t.Context(), name, ttlhash.Item{Field: "soon", Value: "4", TTL: lease}); !set || err != nil {
		t.Errorf("set where one has expired: %v, %v", set, err)
	}
}

func (l *library) ttlHashEvents(t *testing.T, name string) {
	a, b := hashes(t, l.a, ttlhash.Options{Events: true}), hashes(t, l.b, ttlhash.Options{Events: true})
	events := make(chan ttlhash.Event, 10)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for e, err := range b.Expired(ctx, name, "0") {
			if err == nil {
				events <- e
			} else if ctx.Err() == nil {
				t.Error(err)
			}
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	must(t, a.Set(t.Context(), name, "x", "1", 300*time.Millisecond))
	if e := next(t, "an event", events); e.Field != "x" || e.Value != "1" {
		t.Errorf("%+v", e)
	}
}

func (l *library) scanKeys(t *testing.T, name string) (refusal error) {
	var cmds []redoubt.Cmd
	want := map[string]bool{}
	for i := range 300 {
		key := fmt.Sprint(name, ":", i)
		want[key] = true
		cmds = append(cmds, redoubt.Cmd{Name: "SET", Keys: []string{key}, Args: []string{"v"}})
	}
	for _, r := range l.a.Pipeline(t.Context(), cmds) {
		must(t, r.Err)
	}
	s, err := scan.New(l.b, scan.Options{Count: 50})
	must(t, err)
	keys := func(from string) *scan.Iterator[string] {
		it, err := s.Keys(scan.Query{Match: name + ":*", Type: "string", From: from})
		must(t, err)
		return it
	}
	// It goes on with the token of what has broken off.
	seen := map[string]bool{}
	it := keys("")
	for page, err := range it.Pages(t.Context()) {
		if err != nil && len(seen) == 0 {
			return err
		}
		must(t, err)
		for _, k := range page {
			seen[k] = true
		}
		if len(seen) > 100 {
			break
		}
	}
	for k, err := range keys(it.Token()).All(t.Context()) {
		must(t, err)
		seen[k] = true
	}
	for k := range want {
		if !seen[k] {
			t.Errorf("%s was not found", k)
		}
	}
	if len(seen) != len(want) {
		t.Errorf("%d keys were found, want %d", len(seen), len(want))
	}
	done, err := s.Delete(t.Context(), keys(""), scan.Bulk{})
	if done.Changed != 300 || err != nil {
		t.Errorf("%+v, %v", done, err)
	}
	return nil
}
