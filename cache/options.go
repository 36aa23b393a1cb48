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
	// MaxName is the longest name of a cache and MaxKey the longest text of a key, in bytes.
	MaxName = wire.MaxName
	MaxKey  = redoubt.MaxName - MaxName - 1

	// MinTTL is the shortest time that an entry may live, and MaxTTL the longest.
	MinTTL = time.Millisecond
	MaxTTL = 10 * 365 * 24 * time.Hour

	// MaxLoadTimeout is the longest [Options.LoadTimeout].
	MaxLoadTimeout = 30 * time.Minute

	// defaultLease is how long a lease lasts without renewal. It is renewed every third of that.
	defaultLease = 3 * time.Second
)

// Options configure a [Cache] of values V by keys K. Name and TTL must be set; the
// zero value of all others is their documented default.
type Options[K comparable, V any] struct {
	// Name begins the names of all entries and says what they are, like "users". Processes with the
	// same Name share entries. 1 to [MaxName] bytes, without a colon.
	Name string
	// TTL is how long a value is fresh, at most: see Jitter. From [MinTTL] to
	// [MaxTTL].
	TTL time.Duration
	// NegativeTTL is how long the cache remembers that the source does not have a key. Defaults to
	// 5 seconds, or TTL if that is shorter.
	NegativeTTL time.Duration
	// NoNegative says that the cache does not remember that.
	NoNegative bool
	// Lifetime chooses the TTL of one value, instead of TTL. Optional. Its result has the same
	// bounds; a value with another TTL is not stored.
	Lifetime func(key K, v V) time.Duration
	// Jitter is the largest part by which a TTL is shortened at random, so that entries that are
	// stored together do not expire together. Up to 0.5. Defaults to 0.1.
	Jitter float64
	// NoJitter says that all TTLs are exact.
	NoJitter bool

	// StaleFor is how long after its TTL an entry is served while one caller loads it again in the
	// background. Defaults to 0: callers wait.
	StaleFor time.Duration
	// StaleIfError is how long after its TTL an entry is served when the source fails or the server
	// can't be reached. Defaults to StaleFor.
	StaleIfError time.Duration
	// Beta says how early a value is loaded again in the background before it expires. By the
	// XFetch algorithm this is the earlier, the longer its load took and the larger Beta is.
	// Defaults to 1.
	Beta float64
	// NoEarlyRefresh says that no value is loaded again before it expires.
	NoEarlyRefresh bool

	// LoadTimeout bounds a load and the wait for its turn. At most
	// [MaxLoadTimeout]. Defaults to 30 seconds.
	LoadTimeout time.Duration
	// Lease is how long others wait for a load whose process died. At least 10 ms.
	// Defaults to 3 seconds.
	Lease time.Duration
	// MaxLoads is how many loads run at a time in this process. Defaults to 128.
	MaxLoads int
	// Failures is the number of failures in a row after which the source gets no calls for the time
	// Rest; loads then fail at once with [ErrSourceDown]. They default to 20 and one second.
	Failures int
	Rest     time.Duration
	// NoBreaker says that the source is called even while it fails.
	NoBreaker bool
	// Timeout is how long the cache waits for the server before it continues without it. Defaults
	// to one second.
	Timeout time.Duration

	// Local is how many entries are kept in this process too. Defaults to 0: none.
	Local int
	// LocalTTL is how long an entry stays there at most, which bounds its age when no invalidations
	// arrive. Defaults to 10 seconds, or TTL if that is shorter.
	LocalTTL time.Duration

	// Codec encodes values. Defaults to [JSON].
	Codec Codec[V]
	// Compress is the size in bytes from which payloads are compressed. Defaults to 0: never.
	Compress int
	// MaxBytes is the largest encoded value that is stored. Defaults to 1 MiB.
	MaxBytes int

	// Key returns the text of a key: 1 to [MaxKey] bytes, another text for each key. Defaults to
	// the key itself for strings, and to decimal digits for integers.
	Key func(K) string
	// CheckKey rejects keys that the source can't have, before anything is sent. Optional. Its
	// error is wrapped in one that matches [ErrInvalidKey].
	CheckKey func(K) error
	// Filter says before a load whether the source may have the key, by the key's text. Optional.
	// If the filter fails, the source is asked. A Filter of package bloom fits.
	Filter Filter
	// Tags returns the groups of a value, for [Cache.InvalidateTag]. Optional. Behind `redoubt
	// serve` a pool of several servers needs hash_tag: "{}" for tags: without it each call that
	// loads, stores or invalidates a tag fails at once with an error that matches
	// redoubt.ErrRefused, and loads nothing.
	Tags func(key K, v V) []string

	// OnEvent is called with each event, from many goroutines at once, and must be quick. Optional.
	// See [Log].
	OnEvent func(ctx context.Context, e Event)
}

// A Filter knows items that don't exist: false is certain.
type Filter interface {
	MayContain(ctx context.Context, item string) (bool, error)
}

// NoStale, as [Options.StaleIfError], says that no stale value is served when the source fails.
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
			errs = append(errs, fmt.Errorf("cache: Key is nil, and %v is neither a string nor an integer: Key must return its text", reflect.TypeFor[K]()))
		}
	}
	return errors.Join(errs...)
}

// def sets a zero field to its default.
func def[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

func checkTTL(what string, ttl time.Duration) error { return within(what, ttl, MinTTL, MaxTTL) }

func within[T time.Duration | int | float64](what string, v, low, high T) error {
	if v >= low && v <= high { // false for NaN too
		return nil
	}
	return fmt.Errorf("cache: %s is %v; want %v to %v", what, v, low, high)
}

// keyText returns how keys of simple types are written; nil for other types.
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
