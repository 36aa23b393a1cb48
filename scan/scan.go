package scan

import (
	"errors"
	"fmt"

	"github.com/redoubt-go/redoubt"
)

// Bounds of [Options].
const (
	// MaxCount is the largest page.
	MaxCount = 100_000
	// MaxRemember is the most items that an Iterator remembers.
	MaxRemember = 100_000_000
)

// Options configure a [Scanner]. The zero value is ready to use.
type Options struct {
	// Count is about how many keys or elements a server scans for one page. The server does nothing else
	// meanwhile, for a fraction of a millisecond per thousand. 1 to [MaxCount]. Defaults to 1,000.
	Count int

	// Remember is how many keys or elements an Iterator remembers, so that it yields none twice: at least
	// this many and at most twice as many, in about 40 bytes each. 1 to [MaxRemember], or -1 for none.
	// Defaults to 500,000.
	Remember int
}

// A Scanner iterates over keys, and over the elements of big keys. All methods may be called by many
// goroutines at once.
type Scanner struct {
	client *redoubt.Client
	opts   Options
}

// New returns a Scanner on client's servers. It sends nothing. The scan ignores the client's prefix: it
// matches and yields whole keys.
func New(client *redoubt.Client, opts Options) (*Scanner, error) {
	if opts.Count == 0 {
		opts.Count = 1000
	}
	if opts.Remember == 0 {
		opts.Remember = 500_000
	}
	var errs []error
	if client == nil {
		errs = append(errs, fmt.Errorf("%w: client is nil", ErrInvalidOption))
	}
	if opts.Count < 1 || opts.Count > MaxCount {
		errs = append(errs, fmt.Errorf("%w: Count is %d; want 1 to %d", ErrInvalidOption, opts.Count, MaxCount))
	}
	if opts.Remember < -1 || opts.Remember > MaxRemember {
		errs = append(errs, fmt.Errorf("%w: Remember is %d; want 1 to %d, or -1", ErrInvalidOption, opts.Remember, MaxRemember))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	opts.Remember = max(opts.Remember, 0)
	return &Scanner{client: client, opts: opts}, nil
}

// A Query selects keys. The zero value selects all keys.
type Query struct {
	// Match is a pattern for whole keys, as of Redis' KEYS: *, ?, [a-z], and \ before a character that
	// stands for itself. Empty: all.
	Match string
	// Type is the type of the keys: string, list, set, zset, hash, stream, or the nine characters of a
	// type that a module defines, like ReJSON-RL. Empty: any type.
	Type string
	// From is a token from [Iterator.Token] of the same query. The scan resumes there. Empty: it starts at
	// the beginning.
	From string
}

var types = map[string]bool{"": true, "string": true, "list": true, "set": true, "zset": true, "hash": true, "stream": true}

// Validate returns nil for a Match and a Type that [Scanner.Keys] accepts. Otherwise its error matches
// [ErrInvalidOption].
func (q Query) Validate() error {
	var errs []error
	if err := redoubt.CheckPattern(q.Match); err != nil {
		errs = append(errs, fmt.Errorf("%w: Match: %w", ErrInvalidOption, err))
	}
	if !types[q.Type] && len(q.Type) != 9 {
		errs = append(errs, fmt.Errorf("%w: Type is %q; want string, list, set, zset, hash, stream, or the nine characters of a module's type", ErrInvalidOption, q.Type))
	}
	return errors.Join(errs...)
}

// Keys returns an iterator over the keys that match, of all primaries of a cluster at the same time. It
// sends nothing yet. When the scan can't resume with the token, the error matches [ErrInvalidToken].
func (s *Scanner) Keys(q Query) (*Iterator[string], error) {
	if err := q.Validate(); err != nil {
		return nil, err
	}
	w := &keyWalk{client: s.client, query: q, count: s.opts.Count}
	if q.From != "" {
		if err := w.resume(q.From); err != nil {
			return nil, err
		}
	}
	return &Iterator[string]{walk: w, read: readTexts, id: itself, seen: newSeen(s.opts.Remember)}, nil
}

func itself(s string) string { return s }

func readTexts(raw []string) ([]string, error) { return raw, nil }
