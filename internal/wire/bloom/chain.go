package bloom

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
)

// This file has the scaling filter of RedisBloom, as the BF commands keep it: a chain of classic Bloom
// filters. Each has room for more items than the one before and half its error rate. The sizes,
// positions and dumps equal those the module makes.
//
// A chain is one string under the client's key:
//
//	the bits of all links, each link's as in the module's memory
//	53 bytes for each link, as in the header of a dump
//	20 bytes for the chain, as at the beginning of that header
//	the logarithm of the last link's error rate, two doubles that are added
//	8 random bytes, others for each chain and each part of a dump that is written to it
//	"RdBloom2"
//
// The parts that grow are at the end, so the bits of a link never move, and one GETRANGE from the end
// finds everything. The string has the logarithm because the size of the next link depends on every
// bit of it, and not every back end has the same log. Every change of the bits changes one of the last
// 52 bytes: the number of items, or the random bytes.

const (
	linkBytes  = 53
	chainBytes = 20
	chainMagic = "RdBloom2"
	tailBytes  = chainBytes + 16 + 8 + len(chainMagic)

	// Options of the module: bits are not rounded to a power of two, hashes have 64
	// bits, no second link.
	noRound    = 1
	force64    = 4
	nonScaling = 8

	// MaxChainBytes bounds the string of a chain: the longest string on Redis. A server fills a
	// new string with zeros, and copies one that grows. Meanwhile it does nothing else: 16 MiB take
	// 10 ms. Rejected: growing a long string in steps, under another key at first. A step copies the
	// whole string if the allocator has no room behind it: of 60 steps of 4 MiB two took 45 ms and
	// 89 ms on Redis 7.0 with jemalloc 5.3. Several keys would avoid that, but a filter has only the
	// client's key.
	MaxChainBytes = 512 << 20
	// MaxChainLinks bounds the links that a dump may have. A chain grows to at most 1,100 links:
	// then the error rate of the next would be 0.
	MaxChainLinks = 10_000
	// MaxChainErrorRate replaces larger error rates of a chain.
	MaxChainErrorRate = 0.25
	// maxChainHashes is more than any error rate above 0 needs.
	maxChainHashes = 1100
)

var (
	// ErrTooLarge is matched when a chain would have more than MaxChainBytes or MaxChainLinks.
	ErrTooLarge = errors.New("bloom: the filter would take more than 512 MB, or have more than 10,000 links")

	// ErrBadDump is matched when data is not the header of a dump.
	ErrBadDump = errors.New("bloom: received bad data")

	// ErrOldDump is matched for the header of a dump with hashes of 32 bits or sizes that are
	// powers of two. Since version 1.1 RedisBloom reads such dumps and does not make them.
	ErrOldDump = errors.New("bloom: the dump is of a filter from before RedisBloom 1.1")
)

// A ChainSpec has the arguments of BF.RESERVE. The caller has checked them.
type ChainSpec struct {
	// ErrorRate is above 0 and at most MaxChainErrorRate.
	ErrorRate float64
	// Capacity is the capacity of the first link.
	Capacity int64
	// Expansion is the ratio of the capacity of a link to the capacity of the link before.
	Expansion int64
	// Fixed says that the chain never gets a second link.
	Fixed bool
}

// A link is one filter of a chain.
type link struct {
	bytes, bits, size uint64
	rate, perItem     float64 // error rate, bits an item
	hashes            uint32
	entries           uint64
	n2                uint8
}

// A chain is the end of the string: everything but the bits.
type chain struct {
	size      uint64
	options   uint32
	growth    uint32
	links     []link
	high, low float64 // their sum is the logarithm of the last link's error rate
	version   uint64
}

// The constants of the module differ from ln(2) and its square in the last places.
const (
	moduleLn2        = 0.693147180559945
	moduleLn2Squared = 0.480453013918201
)

// newLink sizes a link, given the logarithm of its error rate.
func newLink(entries uint64, rate, log float64) link {
	l := link{rate: rate, entries: entries, perItem: -(log / moduleLn2Squared)}
	l.bits = max(uint64(float64(entries)*l.perItem), 1)
	l.bytes = (l.bits + 63) / 64 * 8
	l.bits = l.bytes * 8
	l.hashes = uint32(math.Ceil(moduleLn2 * l.perItem))
	return l
}

// newChain returns an empty chain.
func newChain(s ChainSpec) chain {
	c := chain{options: noRound | force64, growth: uint32(s.Expansion)} //nolint:gosec // at most 32768
	rate := s.ErrorRate
	if s.Fixed {
		c.options |= nonScaling
	} else {
		rate *= 0.5
	}
	log, _ := Logarithm(rate)
	c.links = []link{newLink(uint64(s.Capacity), rate, log)} //nolint:gosec // at least 1
	return c.begin()
}

// begin sets the fields that a dump's header does not have.
func (c chain) begin() chain {
	c.high, c.low = Logarithm(c.last().rate)
	c.version = rand.Uint64()
	return c
}

func (c chain) last() *link { return &c.links[len(c.links)-1] }

// grow adds a link and returns ItemNew, or the status of an item that gets no link. It calculates
// as chain_insert.lua does.
func (c *chain) grow() int64 {
	const half = -0.6931471805599453
	sum := c.high + half
	part := sum - c.high
	rest := c.low - 2.3190468138462996e-17 + ((c.high - (sum - part)) + (half - part))
	log := sum + rest
	last := c.last()
	entries, rate := float64(last.entries)*float64(c.growth), last.rate*0.5
	switch {
	case entries < 1 || rate <= 0:
		return ItemNoLink
	case entries > 8*MaxChainBytes: // an item takes more than a bit
		return ItemTooLong
	}
	l := newLink(uint64(entries), rate, log)
	if c.dataLen()+l.bytes+uint64((len(c.links)+1)*linkBytes+tailBytes) > MaxChainBytes {
		return ItemTooLong
	}
	c.links = append(c.links, l)
	c.high, c.low = log, rest-(log-sum)
	return ItemNew
}

// dataLen is the length of the bits of all links.
func (c chain) dataLen() (n uint64) {
	for _, l := range c.links {
		n += l.bytes
	}
	return n
}

// tail is the part of the string after the bits.
func (c chain) tail() (string, error) {
	if n := c.dataLen() + uint64(len(c.links)*linkBytes+tailBytes); n > MaxChainBytes {
		return "", fmt.Errorf("%w: %d bytes", ErrTooLarge, n)
	}
	return string(c.appendTail(nil)), nil
}

func (c chain) appendTail(b []byte) []byte {
	for _, l := range c.links {
		b = l.append(b)
	}
	b = c.append(b)
	b = binary.LittleEndian.AppendUint64(b, math.Float64bits(c.high))
	b = binary.LittleEndian.AppendUint64(b, math.Float64bits(c.low))
	b = binary.LittleEndian.AppendUint64(b, c.version)
	return append(b, chainMagic...)
}

func (c chain) append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint64(b, c.size)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(c.links))) //nolint:gosec // as many as have room in a string
	b = binary.LittleEndian.AppendUint32(b, c.options)
	return binary.LittleEndian.AppendUint32(b, c.growth)
}

func (l link) append(b []byte) []byte {
	for _, v := range []uint64{l.bytes, l.bits, l.size, math.Float64bits(l.rate), math.Float64bits(l.perItem)} {
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	b = binary.LittleEndian.AppendUint32(b, l.hashes)
	b = binary.LittleEndian.AppendUint64(b, l.entries)
	return append(b, l.n2)
}

// header is the first part of a dump.
func (c chain) header() string {
	b := c.append(nil)
	for _, l := range c.links {
		b = l.append(b)
	}
	return string(b)
}

// parseChain reads the 20 bytes of a chain and its links, which are apart in a string.
func parseChain(head, links string) chain {
	b, at := []byte(head), []byte(links)
	c := chain{size: binary.LittleEndian.Uint64(b), options: binary.LittleEndian.Uint32(b[12:]), growth: binary.LittleEndian.Uint32(b[16:])}
	word := func(i int) uint64 { return binary.LittleEndian.Uint64(at[i:]) }
	for ; len(at) >= linkBytes; at = at[linkBytes:] {
		c.links = append(c.links, link{
			bytes: word(0), bits: word(8), size: word(16),
			rate: math.Float64frombits(word(24)), perItem: math.Float64frombits(word(32)),
			hashes: binary.LittleEndian.Uint32(at[40:]), entries: word(44), n2: at[52],
		})
	}
	return c
}

// parseTail reads the result of tail.
func parseTail(s string) (chain, bool) {
	if len(s) < tailBytes || s[len(s)-len(chainMagic):] != chainMagic {
		return chain{}, false
	}
	head, links := s[len(s)-tailBytes:], s[:len(s)-tailBytes]
	n := binary.LittleEndian.Uint32([]byte(head[8:12]))
	c, rest := parseChain(head, links), []byte(head[chainBytes:])
	c.high = math.Float64frombits(binary.LittleEndian.Uint64(rest))
	c.low = math.Float64frombits(binary.LittleEndian.Uint64(rest[8:]))
	c.version = binary.LittleEndian.Uint64(rest[16:])
	return c, n > 0 && uint64(len(links)) == uint64(n)*linkBytes
}

// parseHeader reads the first part of a dump, with the checks that the module makes.
func parseHeader(s string) (chain, error) {
	if len(s) < chainBytes {
		return chain{}, ErrBadDump
	}
	n := uint64(binary.LittleEndian.Uint32([]byte(s[8:12])))
	if n == 0 || uint64(len(s)-chainBytes) != n*linkBytes {
		return chain{}, ErrBadDump
	}
	if n > MaxChainLinks {
		return chain{}, ErrTooLarge
	}
	c := parseChain(s[:chainBytes], s[chainBytes:])
	items := uint64(0)
	for _, l := range c.links {
		if !(l.rate > 0 && l.rate < 1) || l.n2 > 63 || l.n2 != 0 && l.bits < 1<<l.n2 || l.bits == 0 ||
			l.bytes > math.MaxUint64/8 || l.bits != l.bytes*8 || l.hashes == 0 || l.hashes > maxChainHashes || float64(l.hashes) != math.Ceil(moduleLn2*l.perItem) ||
			l.size > math.MaxUint64-items {
			return chain{}, ErrBadDump
		}
		if l.bytes > MaxChainBytes {
			return chain{}, ErrTooLarge
		}
		items += l.size
	}
	switch {
	case c.options&^(noRound|2|force64|nonScaling) != 0 || c.size != items:
		return chain{}, ErrBadDump
	case c.options&^nonScaling != noRound|force64:
		return chain{}, ErrOldDump
	}
	return c.begin(), nil
}

// Logarithm returns the natural logarithm of x in (0, 1) as the sum of two doubles. The first is
// the nearest double, as the log of a good C library gives it; Go's log is now and then off by a
// last place.
func Logarithm(x float64) (high, low float64) {
	mantissa, exponent := math.Frexp(x)
	sum := new(big.Float).Mul(ln2, big.NewFloat(float64(exponent)))
	sum.Add(sum, bigLog(mantissa))
	high, _ = sum.Float64()
	low, _ = sum.Sub(sum, big.NewFloat(high)).Float64()
	return high, low
}

const precision = 160

var ln2 = new(big.Float).Neg(bigLog(0.5))

// bigLog is the logarithm of x in [0.5, 1): twice the area tangent of (x-1)/(x+1).
func bigLog(x float64) *big.Float {
	number := func(f float64) *big.Float { return new(big.Float).SetPrec(precision).SetFloat64(f) }
	z := number(0).Quo(number(x-1), number(0).Add(number(x), number(1)))
	square, power, sum := number(0).Mul(z, z), number(2), number(0)
	power.Mul(power, z)
	for n := 1.0; n < 110; n += 2 { // z² is at most 1/9
		sum.Add(sum, number(0).Quo(power, number(n)))
		power.Mul(power, square)
	}
	return sum
}
