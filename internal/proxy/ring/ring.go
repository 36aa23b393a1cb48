package ring

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"strings"
)

// A Distribution spreads hashes over servers. It has the name that twemproxy uses.
type Distribution string

// The distributions.
const (
	// Ketama moves few keys when a server comes or goes: consistent hashing
	// (Karger et al. 1997) with the points of last.fm's libketama.
	Ketama Distribution = "ketama"
	// Modula is the hash modulo the sum of the weights. Nearly every key moves when
	// a server comes or goes.
	Modula Distribution = "modula"
	// Random looks neither at the key nor at weights.
	Random Distribution = "random"
)

// Distributions are all of them, in the order of twemproxy.
var Distributions = []Distribution{Ketama, Modula, Random}

// A Server is one server of a [Ring].
type Server struct {
	// Name is what decides where in the ring it is. In twemproxy's files it is the
	// alias, else host:port, else the host alone if the port is 11211.
	Name string
	// Weight is its share of the keys. 1 or more.
	Weight int
}

// Options configure a [Ring].
type Options struct {
	// Servers are chosen from, in any order. At least one, with names of their own.
	Servers []Server
	// Live says of each of Servers whether it may be chosen. Nil: all.
	Live []bool
	// Hash defaults to FNV64a.
	Hash Hash
	// Distribution defaults to Ketama.
	Distribution Distribution
	// Tag is two bytes, like {}: what is between the first of the first and the
	// next of the second is hashed alone, so that keys with one tag have one server.
	// Empty: all of a key is hashed.
	Tag string
}

// ErrNoServer says that none of the servers is live.
var ErrNoServer = errors.New("ring: no server is live")

func (o Options) validate() error {
	var errs []error
	if len(o.Servers) == 0 {
		errs = append(errs, errors.New("ring: no servers; want at least one"))
	}
	names := make(map[string]bool, len(o.Servers))
	for _, s := range o.Servers {
		if s.Weight < 1 || s.Weight > math.MaxInt32 {
			errs = append(errs, fmt.Errorf("ring: server %q has weight %d; want 1 to %d", s.Name, s.Weight, math.MaxInt32))
		}
		if names[s.Name] {
			errs = append(errs, fmt.Errorf("ring: two servers have the name %q", s.Name))
		}
		names[s.Name] = true
	}
	if o.Live != nil && len(o.Live) != len(o.Servers) {
		errs = append(errs, fmt.Errorf("ring: Live has %d values for %d servers", len(o.Live), len(o.Servers)))
	}
	if !slices.Contains(Hashes, o.Hash) {
		errs = append(errs, fmt.Errorf("ring: %q is not a valid hash; want one of %v", o.Hash, Hashes))
	}
	if !slices.Contains(Distributions, o.Distribution) {
		errs = append(errs, fmt.Errorf("ring: %q is not a valid distribution; want one of %v", o.Distribution, Distributions))
	}
	if len(o.Tag) != 0 && len(o.Tag) != 2 {
		errs = append(errs, fmt.Errorf("ring: tag %q is not a valid hash tag string with two characters", o.Tag))
	}
	return errors.Join(errs...)
}

// A Ring chooses servers. Its methods may be called by many goroutines at once.
type Ring struct {
	hash   func(key []byte) uint32
	tag    string
	dist   Distribution
	digest string
	only   int32 // the one server that lives, or -1

	points  []uint32 // of Ketama, in order
	starts  []int32  // the first point that is not below i<<shift
	shift   int
	servers []int32 // Ketama: the server of each point; Modula: each server as often as it weighs; Random: the live servers
}

// New returns a Ring. It returns an error that matches [ErrNoServer] if none of the
// servers is live.
func New(o Options) (*Ring, error) {
	o.Hash = cmp.Or(o.Hash, FNV64a)
	o.Distribution = cmp.Or(o.Distribution, Ketama)
	if err := o.validate(); err != nil {
		return nil, err
	}
	var live []int32
	total := 0
	for i := range o.Servers {
		if o.Live == nil || o.Live[i] {
			live = append(live, int32(i)) //nolint:gosec // an index
			total += o.Servers[i].Weight
		}
	}
	if len(live) == 0 {
		return nil, ErrNoServer
	}
	slices.SortFunc(live, func(a, b int32) int {
		x, y := o.Servers[a].Name, o.Servers[b].Name
		return cmp.Or(cmp.Compare(len(x), len(y)), strings.Compare(x, y))
	})
	r := &Ring{hash: functions[o.Hash], tag: o.Tag, dist: o.Distribution, digest: o.digest(live), only: -1}
	if len(live) == 1 {
		r.only = live[0]
	}
	switch {
	case o.Distribution == Ketama:
		r.ketama(o.Servers, live, total)
	case o.Distribution == Modula && total > maxModula:
		return nil, fmt.Errorf("ring: the weights add up to %d; want at most %d for modula", total, maxModula)
	case o.Distribution == Modula:
		for _, s := range live {
			r.servers = append(r.servers, slices.Repeat([]int32{s}, o.Servers[s].Weight)...)
		}
	default:
		r.servers = live
	}
	return r, nil
}

// maxModula is what the weights may add up to: each takes four bytes.
const maxModula = 1 << 24

// digest names what decides the choices of a Ring.
func (o Options) digest(live []int32) string {
	b := fmt.Appendf(nil, "%s %s %q", o.Hash, o.Distribution, o.Tag)
	for _, s := range live {
		b = fmt.Appendf(b, " %q %d", o.Servers[s].Name, o.Servers[s].Weight)
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:8])
}

func (r *Ring) ketama(servers []Server, live []int32, total int) {
	type point struct {
		at     uint32
		server int32
	}
	var points []point
	for _, s := range live {
		for k := range pointsOf(servers[s].Weight, total, len(live)) / 4 {
			for _, at := range md5Points(fmt.Appendf(nil, "%s-%d", servers[s].Name, k)) {
				points = append(points, point{at, s})
			}
		}
	}
	slices.SortStableFunc(points, func(a, b point) int { return cmp.Compare(a.at, b.at) })
	for _, p := range points {
		r.points, r.servers = append(r.points, p.at), append(r.servers, p.server)
	}
	// About two for each point, so that few have more than one.
	r.shift = 31 - min(bits.Len(uint(len(points))), 24)
	at := 0
	for start := uint64(0); start <= math.MaxUint32; start += 1 << r.shift {
		for at < len(points) && uint64(r.points[at]) < start {
			at++
		}
		r.starts = append(r.starts, int32(at)) //nolint:gosec // a number of points
	}
}

// pointsOf is how many points a server has. Each step is rounded to float32, as
// the C does it.
func pointsOf(weight, total, live int) int {
	share := float32(weight) / float32(total)
	n := float32(float32(float32(share*160)/4) * float32(live))
	return int(math.Floor(float64(float32(float64(n)+0.0000000001)))) * 4
}

// Pick returns which server key has: an index of [Options].Servers.
func (r *Ring) Pick(key []byte) int {
	if r.only >= 0 {
		return int(r.only)
	}
	if r.dist == Random {
		return int(r.servers[rand.IntN(len(r.servers))]) //nolint:gosec // it spreads load
	}
	h := r.hashOf(key)
	if r.dist == Modula {
		return int(r.servers[h%uint32(len(r.servers))]) //nolint:gosec // at most maxModula
	}
	i := int(r.starts[h>>r.shift])
	for i < len(r.points) && r.points[i] < h {
		i++
	}
	if i == len(r.points) {
		i = 0
	}
	return int(r.servers[i])
}

func (r *Ring) hashOf(key []byte) uint32 {
	if key = r.Tagged(key); len(key) == 0 {
		return 0
	}
	return r.hash(key)
}

// Tagged returns the part of key that is hashed.
func (r *Ring) Tagged(key []byte) []byte {
	if r.tag == "" {
		return key
	}
	start := bytes.IndexByte(key, r.tag[0])
	if start < 0 {
		return key
	}
	if n := bytes.IndexByte(key[start+1:], r.tag[1]); n > 0 {
		return key[start+1:][:n]
	}
	return key
}

// Digest returns a short text that is the same for Rings that choose alike.
func (r *Ring) Digest() string { return r.digest }

// Shares returns the part of all hashes that each of n servers has, by its index in [Options].Servers.
func (r *Ring) Shares(n int) []float64 {
	shares := make([]float64, n)
	if r.only >= 0 {
		shares[r.only] = 1
		return shares
	}
	if r.dist == Ketama {
		const all = 1 << 32
		before := uint32(0)
		for i, p := range r.points {
			shares[r.servers[i]] += float64(p-before) / all
			before = p
		}
		// Hashes above the last point, and 0, have the first one.
		shares[r.servers[0]] += (all - float64(before)) / all
		return shares
	}
	for _, s := range r.servers {
		shares[s] += 1 / float64(len(r.servers))
	}
	return shares
}
