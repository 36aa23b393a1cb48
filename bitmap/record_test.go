package bitmap_test

import (
	"fmt"
	"maps"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/bitmap"
)

func (e *env) records(fields ...bitmap.Field) *bitmap.Records {
	e.T.Helper()
	rs, err := bitmap.NewRecords(e.Client, bitmap.RecordOptions{Fields: fields})
	must(e.T, err)
	return rs
}

// Promise: the field of a record answers as an integer that wraps, saturates or refuses.
func TestRecordAgreesWithModel(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		rng := rand.New(rand.NewPCG(10, 11))
		types := []string{"u1", "i1", "u7", "i8", "u31", "i33", "u53", "i54", "u62", "u63", "i63", "i64"}
		var fields []bitmap.Field
		for _, o := range []bitmap.Overflow{bitmap.Wrap, bitmap.Saturate, bitmap.Fail} {
			for _, typ := range types {
				fields = append(fields, bitmap.Field{Name: fmt.Sprint(typ, o), Type: typ, Overflow: o}, bitmap.Field{Name: "_", Type: "u3"})
			}
		}
		rs, model := e.records(fields...), map[string]int64{}
		for step := range 400 {
			var changes []bitmap.Change
			next, failed := maps.Clone(model), ""
			for range 1 + rng.IntN(4) {
				f := fields[2*rng.IntN(len(fields)/2)]
				low, high := limits(f.Type)
				v := []int64{0, 1, -1, low, high, low / 2, high/2 + 1, math.MinInt64, math.MaxInt64, rng.Int64()}[rng.IntN(10)]
				if rng.IntN(3) == 0 {
					v = min(max(v, low), high)
					changes = append(changes, bitmap.Set(f.Name, v))
					next[f.Name] = v
					continue
				}
				changes = append(changes, bitmap.Incr(f.Name, v))
				sum := new(big.Int).Add(big.NewInt(next[f.Name]), big.NewInt(v))
				in := sum.Cmp(big.NewInt(low)) >= 0 && sum.Cmp(big.NewInt(high)) <= 0
				switch {
				case in:
					next[f.Name] = sum.Int64()
				case f.Overflow == bitmap.Saturate && sum.Sign() < 0:
					next[f.Name] = low
				case f.Overflow == bitmap.Saturate:
					next[f.Name] = high
				case f.Overflow == bitmap.Wrap:
					size := new(big.Int).Sub(big.NewInt(high), big.NewInt(low))
					size.Add(size, big.NewInt(1))
					sum.Sub(sum, big.NewInt(low)).Mod(sum, size).Add(sum, big.NewInt(low))
					next[f.Name] = sum.Int64()
				case failed == "":
					failed = f.Name
				}
			}
			o, err := rs.Update(t.Context(), "r", changes...)
			must(t, err)
			if o.Overflowed != failed {
				t.Fatalf("step %d: %v overflows, want %q", step, o.Overflowed, failed)
			}
			if failed == "" {
				model = next
			}
			for name, v := range o.Record.All() {
				if v != model[name] {
					t.Fatalf("step %d: %s is %d after %v, want %d", step, name, v, changes, model[name])
				}
			}
			if step%50 == 0 {
				r, err := rs.Load(t.Context(), "r")
				must(t, err)
				if !maps.Equal(maps.Collect(r.All()), maps.Collect(o.Record.All())) {
					t.Fatal("what is read is not what was written")
				}
			}
		}
	})
}

// limits returns the range of a type.
func limits(typ string) (low, high int64) {
	var bits int
	_, _ = fmt.Sscanf(typ[1:], "%d", &bits)
	if typ[0] == 'u' {
		return 0, 1<<bits - 1
	}
	return -1 << (bits - 1), 1<<(bits-1) - 1
}

// A refused update leaves no key behind and does not change the expiry.
//
// Promise: a refused update changes nothing.
func TestRecordRefused(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		rs, err := bitmap.NewRecords(e.Client, bitmap.RecordOptions{TTL: time.Hour, Fields: []bitmap.Field{
			{Name: "gold", Type: "u20", Overflow: bitmap.Fail}, {Name: "swords", Type: "u4"},
		}})
		must(t, err)
		o, err := rs.Update(t.Context(), "p", bitmap.Incr("swords", 1), bitmap.Incr("gold", -1))
		must(t, err)
		if o.Overflowed != "gold" || len(e.Keys()) != 0 {
			t.Errorf("the outcome is %+v, and there are %d keys", o, len(e.Keys()))
		}
		_, err = rs.Update(t.Context(), "p", bitmap.Set("gold", 30))
		must(t, err)
		must(t, e.Redis.PExpire(t.Context(), e.Key("p", "record"), time.Minute).Err())
		o, err = rs.Update(t.Context(), "p", bitmap.Incr("swords", 1), bitmap.Incr("gold", -31))
		must(t, err)
		gold, _ := o.Record.Get("gold")
		swords, _ := o.Record.Get("swords")
		if left := e.Redis.PTTL(t.Context(), e.Key("p", "record")).Val(); o.Overflowed != "gold" || gold != 30 || swords != 0 || left <= 0 || left > time.Minute {
			t.Errorf("the outcome is %q with %d and %d, kept for %v", o.Overflowed, gold, swords, left)
		}
		value, ok, err := rs.Incr(t.Context(), "p", "gold", -30)
		must(t, err)
		if left := e.Redis.PTTL(t.Context(), e.Key("p", "record")).Val(); value != 0 || !ok || left < 50*time.Minute {
			t.Errorf("gold is %d, %v, kept for %v", value, ok, left)
		}
		if value, ok, err = rs.Incr(t.Context(), "p", "gold", -1); value != 0 || ok || err != nil {
			t.Errorf("gold is %d, %v, %v", value, ok, err)
		}
	})
}

// Fields are added at the end, and unused fields keep their place.
//
// Promise: many calendars, bits or records are one round trip to each server.
func TestRecordSchemaGrows(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		old := e.records(bitmap.Field{Name: "a", Type: "u5"}, bitmap.Field{Name: "b", Type: "i9"})
		_, err := old.Update(t.Context(), "r", bitmap.Set("a", 31), bitmap.Set("b", -200))
		must(t, err)
		now := e.records(bitmap.Field{Name: "_", Type: "u5"}, bitmap.Field{Name: "b", Type: "i9"}, bitmap.Field{Name: "c", Type: "u40"})
		all, err := now.LoadMany(t.Context(), []string{"r", "none"})
		must(t, err)
		for i, want := range []map[string]int64{{"b": -200, "c": 0}, {"b": 0, "c": 0}} {
			if got := maps.Collect(all[i].All()); !maps.Equal(got, want) {
				t.Errorf("record %d is %v, want %v", i, got, want)
			}
		}
		if _, ok := all[0].Get("_"); ok {
			t.Error("there is a field _")
		}
		if n := e.tripsOf(func() { _, _ = now.LoadMany(t.Context(), []string{"r", "none"}) }); n != 1 {
			t.Errorf("LoadMany took %d round trips", n)
		}
		var names []string
		for name, err := range now.List(t.Context(), "*") {
			must(t, err)
			names = append(names, name)
		}
		if !slices.Equal(names, []string{"r"}) {
			t.Errorf("the names are %v", names)
		}
		if deleted, err := now.Delete(t.Context(), "r"); !deleted || err != nil || len(e.Keys()) != 0 {
			t.Errorf("deleted: %v, %v", deleted, err)
		}
	})
}

// Promise: bad input is refused, and nothing is written.
func TestRecordBadInput(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		_, err := bitmap.NewRecords(nil, bitmap.RecordOptions{TTL: time.Microsecond, Fields: []bitmap.Field{
			{Name: "a", Type: "u64"}, {Name: "b", Type: "i65"}, {Name: "c", Type: "u0"}, {Name: "d", Type: "u07"}, {Name: "e", Type: "x"},
			{Name: "f"}, {Type: "u1"}, {Name: "a", Type: "u1"}, {Name: "g", Type: "u1", Overflow: 3},
		}})
		says(t, err, "client is nil", "TTL is 1µs", `field "a" has the type "u64"; want u1 to u63 or i1 to i64`, `"i65"`, `"u0"`, `"u07"`, `"x"`, `""`,
			"field 6 has no name", `two fields have the name "a"`, `field "g" has Overflow(3); want Wrap, Saturate or Fail`)
		_, err = bitmap.NewRecords(e.Client, bitmap.RecordOptions{})
		says(t, err, "0 fields; want 1 to 256")
		rs := e.records(bitmap.Field{Name: "level", Type: "u7"}, bitmap.Field{Name: "mood", Type: "i4"}, bitmap.Field{Name: "_", Type: "u1"})
		_, err = rs.Update(t.Context(), "r", bitmap.Set("level", 1), bitmap.Set("level", 128), bitmap.Set("mood", -9), bitmap.Incr("x", 1), bitmap.Set("_", 1))
		says(t, err, `128 is out of the range of field "level"; want 0 to 127`, `-9 is out of the range of field "mood"; want -8 to 7`, `no field "x"`, `no field "_"`)
		_, err = rs.Update(t.Context(), "r")
		says(t, err, "0 changes; want 1 to 256")
		_, _, err = rs.Incr(t.Context(), "", "level", 1)
		is(t, err, redoubt.ErrInvalidName)
		if len(e.Keys()) != 0 {
			t.Errorf("there are %d keys", len(e.Keys()))
		}
		must(t, e.Redis.LPush(t.Context(), e.Key("l", "record"), "x").Err())
		_, err = rs.Update(t.Context(), "l", bitmap.Set("level", 1))
		says(t, err, "WRONGTYPE")
		_, err = rs.Load(t.Context(), "l")
		says(t, err, "WRONGTYPE")
		if _, ok := (bitmap.Record{}).Get("level"); ok {
			t.Error("a record of no kind has a field")
		}
	})
}
