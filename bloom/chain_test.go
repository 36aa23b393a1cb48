package bloom_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	wire "github.com/redoubt-go/redoubt/internal/wire/bloom"
)

// An oracle is RedisBloom's scaling filter written after its documentation, the
// published algorithm and the dumps that it makes, in memory and bit by bit, with the C
// library's log.
type oracle struct {
	log    func(float64) float64
	fixed  bool
	growth uint64
	links  []*oracleLink
}

type oracleLink struct {
	rate, perItem float64
	hashes        int
	entries, size uint64
	bits          []bool
}

func newOracle(s wire.ChainSpec, log func(float64) float64) *oracle {
	o := &oracle{log: log, fixed: s.Fixed, growth: uint64(s.Expansion)}
	rate := s.ErrorRate
	if !s.Fixed {
		rate /= 2
	}
	o.grow(uint64(s.Capacity), rate)
	return o
}

func (o *oracle) grow(entries uint64, rate float64) {
	l := &oracleLink{rate: rate, entries: entries}
	l.perItem = math.Abs(o.log(rate) / 0.480453013918201)
	l.hashes = int(math.Ceil(l.perItem * 0.693147180559945))
	n := uint64(l.perItem * float64(entries))
	if n == 0 {
		n = 1
	}
	if n%64 != 0 {
		n += 64 - n%64
	}
	l.bits = make([]bool, n)
	o.links = append(o.links, l)
}

func (l *oracleLink) positions(item string) (at []uint64) {
	a := slowMurmur([]byte(item), 0xc6a4a7935bd1e995)
	b := slowMurmur([]byte(item), a)
	for i := range l.hashes {
		at = append(at, (a+uint64(i)*b)%uint64(len(l.bits)))
	}
	return at
}

func (o *oracle) has(item string) bool {
	for _, l := range o.links {
		all := true
		for _, p := range l.positions(item) {
			all = all && l.bits[p]
		}
		if all {
			return true
		}
	}
	return false
}

func (o *oracle) add(item string) int64 {
	if o.has(item) {
		return wire.ItemOld
	}
	l := o.links[len(o.links)-1]
	if l.size >= l.entries {
		if o.fixed {
			return wire.ItemFull
		}
		if l.entries*o.growth == 0 || l.rate/2 == 0 {
			return wire.ItemNoLink
		}
		o.grow(l.entries*o.growth, l.rate/2)
		l = o.links[len(o.links)-1]
	}
	for _, p := range l.positions(item) {
		l.bits[p] = true
	}
	l.size++
	return wire.ItemNew
}

// dump returns what BF.SCANDUMP gives: the header and the bits of each link.
func (o *oracle) dump() (parts []string) {
	put := func(b []byte, words ...uint64) []byte {
		for _, w := range words {
			b = binary.LittleEndian.AppendUint64(b, w)
		}
		return b
	}
	var head []byte
	total, options := uint64(0), uint32(1|4)
	for _, l := range o.links {
		n := uint64(len(l.bits))
		head = put(head, n/8, n, l.size, math.Float64bits(l.rate), math.Float64bits(l.perItem))
		head = binary.LittleEndian.AppendUint32(head, uint32(l.hashes))
		head = append(put(head, l.entries), 0)
		total += l.size
	}
	if o.fixed {
		options |= 8
	}
	front := binary.LittleEndian.AppendUint32(put(nil, total), uint32(len(o.links)))
	front = binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(front, options), uint32(o.growth))
	parts = append(parts, string(front)+string(head))
	for _, l := range o.links {
		data := make([]byte, len(l.bits)/8)
		for i, set := range l.bits {
			if set {
				data[i/8] |= 1 << (i % 8)
			}
		}
		parts = append(parts, string(data))
	}
	return parts
}

// dump reads a dump from a server, with the iterator of each part.
func (e *env) dump(key string) (parts []string, iters []int64) {
	e.T.Helper()
	status, info, err := wire.ReadHeader(e.Client.Do(e.T.Context(), wire.ChainHeaderCmd(key)))
	must(e.T, err)
	if status != wire.ChainDone {
		e.T.Fatalf("%s: status %d", key, status)
	}
	parts, iters = append(parts, info.Header), append(iters, 1)
	for iter := int64(1); ; {
		status, data, err := wire.ReadPart(e.Client.Do(e.T.Context(), wire.ChainReadCmd(key, iter)))
		must(e.T, err)
		if status == wire.ChainUnknownPart {
			return parts, iters
		}
		iter += int64(len(data))
		parts, iters = append(parts, data), append(iters, iter)
	}
}

// cLog is the C library's log, by way of redis-server's Lua.
func cLog(t *testing.T, e *env) func(float64) float64 {
	return func(x float64) float64 {
		text, err := e.Redis.Eval(t.Context(), "return string.format('%.17g', math.log(tonumber(ARGV[1])))", nil, strconv.FormatFloat(x, 'g', -1, 64)).Text()
		must(t, err)
		f, err := strconv.ParseFloat(text, 64)
		must(t, err)
		return f
	}
}

// For any commands a chain gives the answers, the sizes and every byte of the dump that RedisBloom
// gives, and the dump loads.
func TestChainIsRedisBlooms(t *testing.T) {
	var log func(float64) float64
	each(t, func(t *testing.T, e *env) {
		if e.Name == "redis" {
			c, known := cLog(t, e), map[float64]float64{}
			log = func(x float64) float64 {
				if _, ok := known[x]; !ok {
					known[x] = c(x)
				}
				return known[x]
			}
		} // the other back ends come after it, and know what it said
		ctx, rnd := t.Context(), rand.New(rand.NewPCG(5, 6))
		inserts := 0
		// Some items by one script, which refuses too many, and some by rounds.
		byScript, byRounds := wire.NewChains(e.Client), wire.NewChains(e.Client)
		byRounds.InRounds()
		for n := range 25 {
			s := wire.ChainSpec{
				ErrorRate: []float64{0.01, 0.001, 0.25, 0.05, 1e-9, 0.1, rnd.Float64() / 4}[rnd.IntN(7)],
				Capacity:  1 + rnd.Int64N(40), Expansion: rnd.Int64N(5),
			}
			s.Fixed = s.Expansion == 0 || rnd.IntN(6) == 0
			key, o := fmt.Sprint(e.Prefix, n), newOracle(s, log)
			if n%2 == 0 {
				cmd, err := wire.ChainReserveCmd(key, s)
				must(t, err)
				for _, want := range []wire.ChainStatus{wire.ChainDone, wire.ChainMissing} {
					status, err := wire.ReadStatus(e.Client.Do(ctx, cmd))
					must(t, err)
					if status != want {
						t.Fatalf("%+v: status %d, want %d", s, status, want)
					}
				}
			}
			for range 6 {
				items := make([]string, 1+rnd.IntN(30))
				for i := range items {
					items[i] = strconv.Itoa(rnd.IntN(200))
				}
				chains := byScript
				if rnd.IntN(2) == 0 {
					chains = byRounds
				}
				if rnd.IntN(2) == 0 {
					got, err := chains.Exists(ctx, key, wire.HashItems(items))
					must(t, err)
					for i, item := range items {
						if o.has(item) != (got[i] == 1) {
							t.Fatalf("%+v: %s is in: %d", s, item, got[i])
						}
					}
					continue
				}
				status, got, err := chains.Insert(ctx, key, &s, wire.HashItems(items))
				must(t, err)
				var want []int64
				for _, item := range items {
					if want = append(want, o.add(item)); want[len(want)-1] == wire.ItemFull {
						break
					}
				}
				inserts += len(got)
				if status != wire.ChainDone || fmt.Sprint(got) != fmt.Sprint(want) {
					t.Fatalf("%+v: %q gave %d %v, want %v", s, items, status, got, want)
				}
			}
			if e.Redis.Exists(ctx, key).Val() == 0 {
				continue // it was only asked
			}
			parts, iters := e.dump(key)
			want := o.dump()
			for i := range want {
				if len(parts) != len(want) || parts[i] != want[i] {
					t.Fatalf("%+v: part %d of a dump is\n%x, want\n%x", s, i, parts[i], want[i])
				}
			}
			for i, part := range parts {
				cmd, err := wire.ChainLoadCmd(key+"copy", iters[i], part)
				must(t, err)
				status, _, err := wire.ReadPart(e.Client.Do(ctx, cmd))
				must(t, err)
				if status != wire.ChainDone && (i > 0 || status != wire.ChainMade) {
					t.Fatalf("loading part %d: %d", i, status)
				}
			}
			if a, b := e.Redis.Get(ctx, key).Val(), e.Redis.Get(ctx, key+"copy").Val(); a[:len(a)-32] != b[:len(b)-32] {
				t.Fatalf("%+v: the loaded filter is another", s)
			}
		}
		if inserts < 500 {
			t.Errorf("only %d items were inserted", inserts)
		}
	})
}

// The size of a link depends on the last bit of a logarithm. Ours equals the C library's, for the
// error rate of a filter and for the rates of the links that follow.
func TestLogarithm(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		if e.Name != "redis" {
			return // it has no C library
		}
		var args []any
		var want []string
		rnd := rand.New(rand.NewPCG(7, 8))
		for i := range 400 {
			x := rnd.Float64()
			switch i % 4 {
			case 0:
				x = math.Pow(10, -float64(i%10)) * float64(1+i%9) / 10
			case 1:
				x = math.Round(x*1000) / 1000
			}
			for range 20 {
				if x /= 2; x > 0 {
					args = append(args, strconv.FormatFloat(x, 'g', -1, 64))
					high, _ := wire.Logarithm(x)
					want = append(want, strconv.FormatFloat(high, 'g', -1, 64))
				}
			}
		}
		got, err := e.Redis.Eval(t.Context(), "local r = {} for i, x in ipairs(ARGV) do r[i] = string.format('%.17g', math.log(tonumber(x))) end return r", nil, args...).StringSlice()
		must(t, err)
		differ := 0
		for i := range got {
			g, _ := strconv.ParseFloat(got[i], 64)
			if strconv.FormatFloat(g, 'g', -1, 64) != want[i] {
				differ++
				t.Logf("log(%s) is %s in C, and %s here", args[i], got[i], want[i])
			}
		}
		// C's log is not the nearest double for one number in some hundred.
		if differ > len(got)/100 {
			t.Errorf("%d of %d differ", differ, len(got))
		}
	})
}

// A chain has so many links that one read from the end does not bring all their descriptions.
func TestChainOfManyLinks(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		for _, c := range []struct{ expansion, links int64 }{{1, 23}, {2, 5}, {4, 4}} {
			key := fmt.Sprint(e.Prefix, c.expansion)
			s := wire.ChainSpec{ErrorRate: 0.01, Capacity: 4, Expansion: c.expansion}
			items := numbered("", 100)
			for i := range items {
				cmd, err := wire.ChainInsertCmd(key, &s, wire.HashItems(items[i:i+1]))
				must(t, err)
				_, _, err = wire.ReadInserted(e.Client.Do(t.Context(), cmd))
				must(t, err)
			}
			got, err := wire.NewChains(e.Client).Exists(t.Context(), key, wire.HashItems(items))
			must(t, err)
			for i, in := range got {
				if in != 1 {
					t.Errorf("expansion %d: %s is denied", c.expansion, items[i])
				}
			}
			_, info, err := wire.ReadHeader(e.Client.Do(t.Context(), wire.ChainHeaderCmd(key)))
			must(t, err)
			if int64(info.Links) < c.links-1 || int64(info.Links) > c.links+1 || info.Items < 90 {
				t.Errorf("expansion %d: %+v", c.expansion, info)
			}
		}
	})
}

func TestChainTooLarge(t *testing.T) {
	_, err := wire.ChainReserveCmd("k", wire.ChainSpec{ErrorRate: 0.01, Capacity: 1 << 30, Expansion: 2})
	is(t, err, wire.ErrTooLarge)
	s := wire.ChainSpec{ErrorRate: 0.01, Capacity: 1 << 30, Expansion: 2}
	_, err = wire.ChainInsertCmd("k", &s, wire.HashItems([]string{"x"}))
	is(t, err, wire.ErrTooLarge)
	// The second link would be.
	each(t, func(t *testing.T, e *env) {
		key := e.Prefix + "k"
		s := wire.ChainSpec{ErrorRate: 0.01, Capacity: 1000, Expansion: 1 << 20}
		for from := 0; from < 1500; from += 100 {
			cmd, err := wire.ChainInsertCmd(key, &s, wire.HashItems(numbered(fmt.Sprint(from, ":"), 100)))
			must(t, err)
			_, became, err := wire.ReadInserted(e.Client.Do(t.Context(), cmd))
			must(t, err)
			last := became[len(became)-1]
			if want := map[bool]int64{false: wire.ItemNew, true: wire.ItemTooLong}[from >= 1000]; last != want && last != wire.ItemOld {
				t.Fatalf("after %d items: %d, want %d", from, last, want)
			}
		}
	})
}

// Each check of a header refuses a bad one.
func TestChainHeaders(t *testing.T) {
	word := func(at int, v uint64) func([]byte) []byte {
		return func(h []byte) []byte { binary.LittleEndian.PutUint64(h[at:], v); return h }
	}
	half := func(at int, v uint32) func([]byte) []byte {
		return func(h []byte) []byte { binary.LittleEndian.PutUint32(h[at:], v); return h }
	}
	both := func(a, b func([]byte) []byte) func([]byte) []byte { return func(h []byte) []byte { return a(b(h)) } }
	const (
		items, links, options                          = 0, 8, 12
		bytes, bits, size, rate, perItem, hashes, byN2 = 20, 28, 36, 44, 52, 60, 72
	)
	for what, c := range map[string]struct {
		change func([]byte) []byte
		want   error
	}{
		"as it was":            {func(h []byte) []byte { return h }, nil},
		"short":                {func(h []byte) []byte { return h[:19] }, wire.ErrBadDump},
		"without links":        {both(half(links, 0), func(h []byte) []byte { return h[:20] }), wire.ErrBadDump},
		"with a link less":     {half(links, 2), wire.ErrBadDump},
		"with half a link":     {func(h []byte) []byte { return h[:60] }, wire.ErrBadDump},
		"more items":           {word(items, 1), wire.ErrBadDump},
		"more items of a link": {word(size, 1), wire.ErrBadDump},
		"rate 0":               {word(rate, 0), wire.ErrBadDump},
		"rate 1":               {word(rate, math.Float64bits(1)), wire.ErrBadDump},
		"rate not a number":    {word(rate, math.Float64bits(math.NaN())), wire.ErrBadDump},
		"fewer bits":           {word(bits, 64), wire.ErrBadDump},
		"no bits":              {both(word(bytes, 0), word(bits, 0)), wire.ErrBadDump},
		"bits beyond 64 bits":  {both(word(bytes, 1<<61+8), word(bits, 64)), wire.ErrBadDump},
		"another hash":         {half(hashes, 9), wire.ErrBadDump},
		"too many hashes":      {both(half(hashes, 1387), word(perItem, math.Float64bits(2000))), wire.ErrBadDump},
		"no hashes":            {both(half(hashes, 0), word(perItem, 0)), wire.ErrBadDump},
		"a power above 63":     {func(h []byte) []byte { h[byN2] = 64; return h }, wire.ErrBadDump},
		"a power above bits":   {func(h []byte) []byte { h[byN2] = 20; return h }, wire.ErrBadDump},
		"unknown option":       {half(options, 1|4|16), wire.ErrBadDump},
		"hashes of 32 bits":    {half(options, 1), wire.ErrOldDump},
		"powers of two":        {half(options, 4), wire.ErrOldDump},
		"513 MiB":              {both(word(bytes, 513<<20), word(bits, 8*513<<20)), wire.ErrTooLarge},
	} {
		good := newOracle(wire.ChainSpec{ErrorRate: 0.01, Capacity: 10, Expansion: 2}, math.Log).dump()[0]
		if _, err := wire.ChainLoadCmd("k", 1, string(c.change([]byte(good)))); !errors.Is(err, c.want) {
			t.Errorf("a header %s: %v, want %v", what, err, c.want)
		}
	}
}

// A bad header is refused and never causes a panic.
func FuzzChainHeader(f *testing.F) {
	good := newOracle(wire.ChainSpec{ErrorRate: 0.01, Capacity: 10, Expansion: 2}, math.Log).dump()[0]
	f.Add([]byte(good))
	f.Add([]byte(good[:20]))
	f.Add([]byte(strings.Repeat("\xff", 73)))
	f.Fuzz(func(t *testing.T, header []byte) {
		cmd, err := wire.ChainLoadCmd("k", 1, string(header))
		if err != nil && !errors.Is(err, wire.ErrBadDump) && !errors.Is(err, wire.ErrOldDump) && !errors.Is(err, wire.ErrTooLarge) {
			t.Fatal(err)
		}
		if tail := cmd.Args[3]; err == nil && len(tail) < len(header) {
			t.Fatalf("%d bytes behind the bits for a header of %d", len(tail), len(header))
		}
	})
}
