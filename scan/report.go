package scan

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"

	"github.com/redoubt-go/redoubt"
)

// A Measure is the size by which keys are compared.
type Measure string

const (
	// Bytes is the memory of a key by MEMORY USAGE, including its name and the server's overhead. The
	// server estimates a key with many elements from a few of them.
	Bytes Measure = "bytes"
	// Elements is the number of fields, members or entries, and for a string its bytes. Counting them
	// counts as an access to the key.
	Elements Measure = "elements"
	// Heat is the access frequency of a key, estimated from OBJECT FREQ, which needs an LFU maxmemory
	// policy. It is the number of accesses that brings the server's counter to its value, with the default
	// lfu-log-factor of 10: an order of magnitude, at most 300,000. The counter decays with time.
	Heat Measure = "heat"
)

// ReportOptions configure a report. The zero value is ready to use.
type ReportOptions struct {
	// By is the size by which keys are compared. Defaults to Bytes.
	By Measure
	// Top is how many of the biggest keys, and how many of the heaviest prefixes, the report lists: 1 to
	// 10,000. Defaults to 20.
	Top int
	// Sample is the share of the keys that is measured, chosen at random: above 0, up to 1. Below 1 the
	// sums are estimates, and the biggest key may be missed. Defaults to 1.
	Sample float64
	// Depth is the greatest number of parts of a prefix, each with its Separator: 1 to 10. Defaults to 1.
	Depth int
	// Separator ends each part of a key. Defaults to ":".
	Separator string
	// Each is called after each page, from the goroutine that called Report. May be nil.
	Each func()
}

func (o *ReportOptions) settle() error {
	if o.By == "" {
		o.By = Bytes
	}
	if o.Top == 0 {
		o.Top = 20
	}
	if o.Sample == 0 {
		o.Sample = 1
	}
	if o.Depth == 0 {
		o.Depth = 1
	}
	if o.Separator == "" {
		o.Separator = ":"
	}
	switch {
	case o.By != Bytes && o.By != Elements && o.By != Heat:
		return fmt.Errorf("%w: By is %q; want %s, %s or %s", ErrInvalidOption, o.By, Bytes, Elements, Heat)
	case o.Top < 1 || o.Top > 10_000:
		return fmt.Errorf("%w: Top is %d; want 1 to 10000", ErrInvalidOption, o.Top)
	case !(o.Sample > 0 && o.Sample <= 1):
		return fmt.Errorf("%w: Sample is %v; want more than 0, and at most 1", ErrInvalidOption, o.Sample)
	case o.Depth < 1 || o.Depth > 10:
		return fmt.Errorf("%w: Depth is %d; want 1 to 10", ErrInvalidOption, o.Depth)
	}
	return nil
}

// A Report describes the keys of a scan.
type Report struct {
	// Found counts all keys, Measured the keys that were measured.
	Found, Measured int64
	// Weight is the sum of all keys by the chosen Measure, estimated when there is a sample.
	Weight int64
	// Types are the sums by type, estimated likewise.
	Types map[string]Sum
	// Keys are the biggest keys, the biggest first.
	Keys []Key
	// Prefixes are the heaviest prefixes, the heaviest first. Prefixes of one part and of several parts
	// are in one list, so a key counts for each of its prefixes.
	Prefixes []Prefix
	// Unprefixed is the sum of the keys without a Separator, which have no prefix.
	Unprefixed Sum
}

// A Sum is a number of keys and their weight, estimated when there is a sample.
type Sum struct{ Keys, Weight int64 }

// A Key is a key that was measured.
type Key struct {
	Name, Type string
	Weight     int64
}

// A Prefix is the beginning of keys, up to and including a Separator.
type Prefix struct {
	Name         string
	Keys, Weight int64 // with a sample, estimated
	// MaxError is how much of Weight may belong to other prefixes: 0 unless there are more than 10,000
	// prefixes.
	MaxError int64
}

// heaviest is how many prefixes are kept: about 2 MB.
const heaviest = 10_000

// Report measures the keys that an iterator yields. It changes nothing, and it keeps only the biggest keys
// and the heaviest prefixes, however many there are. Each page costs one more round trip, two by Elements,
// while the next page is fetched. The nodes of a cluster are measured at the same time.
//
// With an error Report returns the report of the keys so far. The Token of keys leads to a report of the
// rest. The error for Heat on a server that counts no accesses matches [ErrNoLFU].
func (s *Scanner) Report(ctx context.Context, keys *Iterator[string], opts ReportOptions) (Report, error) {
	if err := opts.settle(); err != nil {
		return Report{}, err
	}
	r := Report{Types: map[string]Sum{}}
	biggest := top{n: opts.Top, size: func(k Key) int64 { return k.Weight }}
	prefixes := newHeavy(heaviest)
	err := s.measureAll(ctx, keys, opts, &r, func(k Key) {
		biggest.add(k)
		if !strings.Contains(k.Name, opts.Separator) {
			r.Unprefixed = Sum{r.Unprefixed.Keys + 1, r.Unprefixed.Weight + k.Weight}
		}
		at := 0
		for range opts.Depth {
			n := strings.Index(k.Name[at:], opts.Separator)
			if n < 0 {
				break
			}
			at += n + len(opts.Separator)
			prefixes.add(k.Name[:at], k.Weight)
		}
	})
	r.Keys, r.Prefixes = biggest.sorted(), prefixes.first(opts.Top)
	if r.Measured > 0 && r.Measured < r.Found {
		scale := float64(r.Found) / float64(r.Measured)
		up := func(n *int64) { *n = int64(float64(*n) * scale) }
		up(&r.Weight)
		up(&r.Unprefixed.Keys)
		up(&r.Unprefixed.Weight)
		for name, sum := range r.Types {
			up(&sum.Keys)
			up(&sum.Weight)
			r.Types[name] = sum
		}
		for i := range r.Prefixes {
			p := &r.Prefixes[i]
			up(&p.Keys)
			up(&p.Weight)
			up(&p.MaxError)
		}
	}
	return r, err
}

// measureAll measures on all nodes at the same time, while the next page of each node is fetched.
func (s *Scanner) measureAll(ctx context.Context, keys *Iterator[string], opts ReportOptions, r *Report, each func(Key)) error {
	types := newTypeNumbers()
	measure := func(ctx context.Context, page []string) ([]int64, error) {
		var chosen []string
		var places []int
		for i, key := range page {
			if opts.Sample == 1 || rand.Float64() < opts.Sample { //nolint:gosec // a sample
				chosen, places = append(chosen, key), append(places, i)
			}
		}
		measured, err := s.measure(ctx, chosen, opts.By)
		result := make([]int64, 2*len(page))
		for j, k := range measured {
			result[2*places[j]], result[2*places[j]+1] = types.number(k.Type), k.Weight
		}
		return result, err
	}
	return keys.walk.run(ctx, measure, func(p *page) (bool, error) {
		fresh := 0
		for i, name := range p.mark.left() {
			if !keys.seen.add(name) {
				continue
			}
			fresh++
			k := Key{name, types.name(p.result[2*i]), p.result[2*i+1]}
			if k.Type == "" {
				continue
			}
			r.Measured++
			r.Weight += k.Weight
			sum := r.Types[k.Type]
			r.Types[k.Type] = Sum{sum.Keys + 1, sum.Weight + k.Weight}
			each(k)
		}
		keys.seen.keep()
		r.Found += int64(fresh)
		if opts.Each != nil && fresh > 0 {
			opts.Each()
		}
		return true, nil
	})
}

// A typeNumbers numbers the types of keys, including the types of modules. 0 means no type: the key is
// gone or was not chosen.
type typeNumbers struct {
	mu      sync.Mutex
	names   []string
	numbers map[string]int64
}

func newTypeNumbers() *typeNumbers {
	return &typeNumbers{names: []string{""}, numbers: map[string]int64{"": 0}}
}

func (t *typeNumbers) number(name string) int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	n, ok := t.numbers[name]
	if !ok {
		n = int64(len(t.names))
		t.names, t.numbers[name] = append(t.names, name), n
	}
	return n
}

func (t *typeNumbers) name(number int64) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.names[number]
}

// lengths are the commands that count elements.
var lengths = map[string]string{"string": "STRLEN", "list": "LLEN", "set": "SCARD", "zset": "ZCARD", "hash": "HLEN", "stream": "XLEN"}

// measure returns the keys with their types and sizes. A key that is gone has no type.
func (s *Scanner) measure(ctx context.Context, keys []string, by Measure) ([]Key, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	size := map[Measure]string{Bytes: "MEMORY USAGE", Heat: "OBJECT FREQ"}[by]
	cmds := make([]redoubt.Cmd, 0, 2*len(keys))
	for _, key := range keys {
		cmds = append(cmds, redoubt.Cmd{Name: "TYPE", Keys: []string{key}, Flags: redoubt.ReadOnly})
	}
	if size != "" {
		for _, key := range keys {
			cmds = append(cmds, redoubt.Cmd{Name: size, Keys: []string{key}, Flags: redoubt.ReadOnly})
		}
	}
	replies := s.client.Pipeline(ctx, cmds)
	sizes := replies[len(keys):]
	kinds := make([]string, len(keys))
	for i, r := range replies[:len(keys)] {
		var err error
		if kinds[i], err = r.Text(); err != nil {
			return nil, err
		}
	}
	if size == "" {
		cmds = cmds[:0]
		for i, key := range keys {
			name := lengths[kinds[i]]
			if name == "" { // gone, or of a module's type, whose elements can't be counted
				name = "EXISTS"
			}
			cmds = append(cmds, redoubt.Cmd{Name: name, Keys: []string{key}, Flags: redoubt.ReadOnly})
		}
		sizes = s.client.Pipeline(ctx, cmds)
	}
	measured := make([]Key, len(keys))
	for i, key := range keys {
		n, err := sizes[i].Int()
		switch {
		case kinds[i] == "none" || sizes[i].IsNil():
			continue
		case errors.Is(err, redoubt.ErrWrongType): // another one by now
			continue
		case by == Heat && redoubt.IsCode(err, "ERR"): // OBJECT FREQ has no other error for a key
			return nil, fmt.Errorf("%w: set its maxmemory-policy to allkeys-lfu or volatile-lfu: %w", ErrNoLFU, err)
		case err != nil:
			return nil, fmt.Errorf("scan: %s of %s: %w", cmds[len(cmds)-len(keys)+i].Name, strconv.Quote(key), err)
		}
		if by == Heat {
			n = accesses(n)
		}
		measured[i] = Key{key, kinds[i], n}
	}
	return measured, nil
}

// accesses is about the number of accesses that bring an LFU counter to n. A new key begins at 5; from
// then on an access counts with a probability of 1/(10·(n−5)+1).
func accesses(n int64) int64 {
	n = max(n-5, 0)
	return n + 5*n*(n-1)
}
