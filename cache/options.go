package cache

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"time"

	"github.com/redoubt-go/redoubt"
	wire "github.com/redoubt-go/redoubt/internal/wire/cache"
)

const (
	// MaxName is the longest name of a cache and MaxKey the longest text of a key,
	// in bytes.
	MaxName = wire.MaxName
	MaxKey  = redoubt.MaxName - MaxName - 1

	// MinTTL is the shortest time that an entry may live, and MaxTTL the longest.
	MinTTL = time.Millisecond
	MaxTTL = 10 * 365 * 24 * time.Hour

	// MaxLoadTimeout is the longest [Options.LoadTimeout].
	MaxLoadTimeout = 30 * time.Minute

	// lease is how long a load that shows no sign of life keeps others from
	// loading. It is renewed three times as often.
	defaultLease = 3 * time.Second
)

// Options configure a [Cache] of values V by keys K. Name and TTL must be set; the
// zero value of all others is their documented default.
type Options[K comparable, V any] struct {
	// Name begins the names of all entries: what they are, like "users". Processes
	// that share entries use the same. 1 to [MaxName] bytes, without a colon.
	Name string
	// TTL is how long a value is fresh, at most: see Jitter. From [MinTTL] to
	// [MaxTTL].
	TTL time.Duration
	// NegativeTTL is how long it is remembered that the source has none. Defaults
	// to 5 seconds, or TTL if that is shorter.
	NegativeTTL time.Duration
	// NoNegative says that it is not remembered.
	NoNegative bool
	// Lifetime chooses the TTL of one value, instead of TTL. Optional. What it
	// returns is held to the same bounds: otherwise the value is not stored.
	Lifetime func(key K, v V) time.Duration
	// Jitter is by how much of itself a TTL is made shorter at most, at random, so
	// that what was stored together doesn't expire together. Up to 0.5. Defaults
	// to 0.1.
	Jitter float64
	// NoJitter says that all TTLs are exact.
	NoJitter bool

	// StaleFor is how much longer than its TTL an entry is served while one caller
	// loads it anew in the background. Defaults to 0: callers wait.
	StaleFor time.Duration
	// StaleIfError is how much longer than its TTL an entry is served when the
	// source fails, or the server can't be reached. Defaults to StaleFor.
	StaleIfError time.Duration
	// Beta says how early a value may be loaded anew, in the background, before it
	// expires: after XFetch, earlier the longer its load took and the larger Beta
	// is. Defaults to 1.
	Beta float64
	// NoEarlyRefresh says that nothing is loaded before it expires.
	NoEarlyRefresh bool

	// LoadTimeout bounds a load and the wait for its turn. At most
	// [MaxLoadTimeout]. Defaults to 30 seconds.
	LoadTimeout time.Duration
	// Lease is how long others wait for a load whose process died. At least 10 ms.
	// Defaults to 3 seconds.
	Lease time.Duration
	// MaxLoads is how many loads run at a time in this process. Defaults to 128.
	MaxLoads int
	// Failures is after how many failures in a row the source is left alone, and
	// Rest for how long: loads fail at once with [ErrSourceDown] meanwhile.
	// Default to 20 and one second.
	Failures int
	Rest     time.Duration
	// NoBreaker says that the source is always asked.
	NoBreaker bool
	// Timeout is how long the server may take to answer until the cache goes on
	// without it. Defaults to one second.
	Timeout time.Duration

	// Local is how many entries are kept in this process too. Defaults to 0: none.
	Local int
	// LocalTTL is how long an entry is kept there at most, and so how old it can be
	// when nothing was heard of its invalidation. Defaults to 10 seconds, or TTL if
	// that is shorter.
	LocalTTL time.Duration

	// Codec encodes values. Defaults to [JSON].
	Codec Codec[V]
	// Compress is from how many bytes on payloads are compressed. Defaults to 0:
	// never.
	Compress int
	// MaxBytes is the size of the largest value that is stored, encoded. Defaults to
	// 1 MiB.
	MaxBytes int

	// Key is the text of a key, 1 to [MaxKey] bytes, different for different keys.
	// Defaults to the key itself for strings, and to decimal digits for integers.
	Key func(K) string
	// CheckKey rules out keys that the source can't have, before anything is asked.
	// Optional. Its error is wrapped in one that matches [ErrInvalidKey].
	CheckKey func(K) error
	// Filter is asked before a load whether the source may have the key at all. It
	// is asked by its text. Optional; a filter that fails is not heeded. A Filter
	// of package bloom is one.
	Filter Filter
	// Tags are what groups a value belongs to, for [Cache.InvalidateTag]. Optional. Behind
	// `redoubt serve` a pool of several servers needs hash_tag: "{}" for them: without it each call
	// that loads, stores or invalidates a tag fails at once with an error that matches
	// redoubt.ErrRefused, and loads nothing.
	Tags func(key K, v V) []string

	// OnEvent is called with what happens, from many goroutines at once, and must be
	// quick. Optional. See [Log].
	OnEvent func(ctx context.Context, e Event)
}

// A Filter knows what can't be there: false is certain.
type Filter interface {
	MayContain(ctx context.Context, item string) (bool, error)
}

// NoStale, as [Options.StaleIfError], says that nothing is served beyond StaleFor's
// use, not even in need.
const NoStale time.Duration = -1

func (o *Options[K, V]) setDefaults() error {
	var errs []error
	errs = append(errs, wire.CheckName(o.Name), checkTTL("TTL", o.TTL))
	def(&o.NegativeTTL, min(5*time.Second, max(o.TTL, MinTTL)))
	def(&o.LocalTTL, min(10*time.Second, max(o.TTL, MinTTL)))
	def(&o.Timeout, time.Second)
	def(&o.Lease, defaultLease)
	def(&o.LoadTimeout, 30*time.Second)
	def(&o.Rest, time.Second)
	def(&o.Jitter, 0.1)
	def(&o.Beta, 1)
	def(&o.MaxLoads, 128)
	def(&o.Failures, 20)
	def(&o.MaxBytes, 1<<20)
	def(&o.StaleIfError, o.StaleFor)
	errs = append(errs,
		checkTTL("NegativeTTL", o.NegativeTTL), checkTTL("LocalTTL", o.LocalTTL),
		within("StaleFor", o.StaleFor, 0, MaxTTL), within("StaleIfError", o.StaleIfError, NoStale, MaxTTL),
		within("LoadTimeout", o.LoadTimeout, time.Millisecond, MaxLoadTimeout), within("Lease", o.Lease, 10*time.Millisecond, time.Hour),
		within("Rest", o.Rest, time.Millisecond, time.Hour), within("Timeout", o.Timeout, time.Millisecond, time.Hour),
		within("Jitter", o.Jitter, 0, 0.5), within("Beta", o.Beta, 0, 1000),
		within("MaxLoads", o.MaxLoads, 1, math.MaxInt32), within("Failures", o.Failures, 1, math.MaxInt32),
		within("MaxBytes", o.MaxBytes, 1, 512<<20-headBytes), within("Compress", o.Compress, 0, math.MaxInt32),
		within("Local", o.Local, 0, math.MaxInt32),
	)
	if o.StaleIfError == NoStale {
		o.StaleIfError = 0
	}
	if o.NoJitter {
		o.Jitter = 0
	}
	if o.NoEarlyRefresh {
		o.Beta = 0
	}
	if o.NoBreaker {
		o.Failures = 0
	}
	if o.Codec == nil {
		o.Codec = JSON[V]()
	}
	if o.Key == nil {
		o.Key = keyText[K]()
		if o.Key == nil {
			errs = append(errs, fmt.Errorf("cache: Key is nil, and %v is neither a string nor an integer: say how a key is written", reflect.TypeFor[K]()))
		}
	}
	return errors.Join(errs...)
}

// def sets what is zero to its default.
func def[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

func checkTTL(what string, ttl time.Duration) error { return within(what, ttl, MinTTL, MaxTTL) }

func within[T time.Duration | int | float64](what string, v, low, high T) error {
	if v >= low && v <= high { // not a number is neither
		return nil
	}
	return fmt.Errorf("cache: %s is %v; want %v to %v", what, v, low, high)
}

// keyText is how keys of simple types are written; nil for others.
func keyText[K comparable]() func(K) string {
	if f, is := any(func(k string) string { return k }).(func(K) string); is {
		return f
	}
	if f, is := any(strconv.Itoa).(func(K) string); is {
		return f
	}
	if f, is := any(func(k int64) string { return strconv.FormatInt(k, 10) }).(func(K) string); is {
		return f
	}
	switch reflect.TypeFor[K]().Kind() {
	case reflect.String:
		return func(k K) string { return reflect.ValueOf(k).String() }
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return func(k K) string { return strconv.FormatInt(reflect.ValueOf(k).Int(), 10) }
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return func(k K) string { return strconv.FormatUint(reflect.ValueOf(k).Uint(), 10) }
	default:
		return nil
	}
}
