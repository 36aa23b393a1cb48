package bloom

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redoubt-go/redoubt"
)

var (
	// ErrMismatch is matched when a filter is opened with another spec than it was made with.
	ErrMismatch = errors.New("bloom: the filter has another spec")

	// ErrNotFound is matched when there is no filter of this name.
	ErrNotFound = errors.New("bloom: no such filter")

	// ErrRebuilding is matched when another process is filling a new generation of the filter.
	ErrRebuilding = errors.New("bloom: another process is rebuilding the filter")
)

// Options configure [Filters]. There is nothing to choose yet.
type Options struct{}

// Filters are the filters on a server, each with a name and a [Spec]. Make one and use it for every
// filter. It keeps no state and need not be closed. All methods may be called by many goroutines at
// once.
type Filters struct {
	client *redoubt.Client
}

// New returns the Filters of client. It sends nothing.
func New(client *redoubt.Client, _ Options) (*Filters, error) {
	if client == nil {
		return nil, errors.New("bloom: client is nil")
	}
	return &Filters{client: client}, nil
}

// makeTime is how long making the keys of a new filter may take.
const makeTime = 10 * time.Minute

// Open returns the filter called name. If it does not exist, Open makes it and reserves all of its
// memory at once. The zero Spec opens an existing filter only; if there is none, the error matches
// [ErrNotFound]. If the filter was made with another Spec, the error matches [ErrMismatch] and the
// filter is unchanged.
//
// One round trip; to make a filter, two more and one for each key. When Open fails halfway, or ctx
// ends, the next Open continues.
func (fs *Filters) Open(ctx context.Context, name string, spec Spec) (*Filter, error) {
	k, err := keysOf(fs.client, name)
	var made generation
	if spec != (Spec{}) {
		err = errors.Join(err, spec.check())
		if err == nil {
			made = generation{id: newID(), spec: spec, layout: layoutFor(spec)}
		}
	}
	if err != nil {
		return nil, err
	}
	f := &Filter{keys: k}
	s, err := f.open(ctx, made)
	if err != nil {
		return nil, err
	}
	if spec != (Spec{}) && s.current.spec != spec && (s.next == nil || s.next.spec != spec) {
		return nil, fmt.Errorf("%w: it is for %v, not for %v; Grow changes that", ErrMismatch, s.current.spec, spec)
	}
	return f, nil
}

// Delete deletes the filter called name. It reports whether the filter existed. Processes that have
// it open get "maybe" for every item from then on. A few round trips; after an error it can be
// repeated.
func (fs *Filters) Delete(ctx context.Context, name string) (deleted bool, err error) {
	k, err := keysOf(fs.client, name)
	if err != nil {
		return false, err
	}
	f := &Filter{keys: k}
	s, err := f.read(ctx)
	if errors.Is(err, ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	err = k.drop(ctx, s.current)
	if s.next != nil {
		err = errors.Join(err, k.drop(ctx, *s.next))
	}
	if err != nil {
		return false, err
	}
	n, err := fs.client.Do(ctx, redoubt.Cmd{Name: "UNLINK", Keys: []string{k.filter}, Flags: redoubt.Idempotent}).Int()
	return n > 0, err
}

// List iterates over the names of filters that match a pattern as of Redis' KEYS; the empty pattern
// matches all. The loop ends with the first error. List looks at every key of the server, or of all
// primaries of a cluster, in steps of a round trip for about 1,000 keys: see
// [redoubt.Client.Names].
func (fs *Filters) List(ctx context.Context, match string) iter.Seq2[string, error] {
	return fs.client.Names(ctx, filterPart, "hash", match)
}

// A Filter is one filter on a server. Open it once and keep it. It only remembers where the filter
// is and need not be closed. All methods may be called by many goroutines at once.
type Filter struct {
	keys

	now     atomic.Pointer[state]
	reading sync.Mutex   // held while a goroutine reads the state anew
	asked   atomic.Int64 // when the state was last read, in ns since 1970
}

// A state is what this process knows of a filter.
type state struct {
	current generation
	next    *generation // nil unless one is being filled
	seal    int64       // how many rebuilds were begun
	ready   bool        // the keys of current were all made
	filled  bool        // next has all items, and replaces current
}

// Spec returns the Spec that this process knows: another process may have changed it by
// [Filter.Grow].
func (f *Filter) Spec() Spec { return f.now.Load().current.spec }

// MayContain reports whether item may have been added. False is certain. True may be a false
// positive, or mean that a key is lost. With an error it returns true, so a caller that ignores
// errors never takes an old item for a new one. One round trip, one GETRANGE of 64 bytes.
func (f *Filter) MayContain(ctx context.Context, item string) (bool, error) {
	may, err := f.MayContainMany(ctx, []string{item})
	return may[0], err
}

// MayContainMany is MayContain for several items. One round trip to each server for every 4,096
// items.
func (f *Filter) MayContainMany(ctx context.Context, items []string) ([]bool, error) {
	may := make([]bool, len(items))
	for i := range may {
		may[i] = true
	}
	todo := each(len(items))
	for {
		s := f.now.Load()
		lost, err := f.lookup(ctx, s.current, items, todo, may)
		if err != nil || len(lost) == 0 {
			return may, err
		}
		// The keys are lost, or the filter was rebuilt and has other keys now.
		fresh, err := f.refreshNow(ctx, s)
		if errors.Is(err, ErrNotFound) || err == nil && fresh.current.id == s.current.id {
			return may, nil
		}
		if err != nil {
			return may, err
		}
		todo = lost
	}
}

func each(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}

// lookup reads the blocks of the items at the indexes in todo, and sets may to false for items that
// are not in them. It returns the indexes of items whose shard is lost.
func (f *Filter) lookup(ctx context.Context, g generation, items []string, todo []int, may []bool) (lost []int, err error) {
	for len(todo) > 0 {
		now := todo[:min(len(todo), atOnce)]
		todo = todo[len(now):]
		cmds, spots := make([]redoubt.Cmd, len(now)), make([]spot, len(now))
		for i, at := range now {
			spots[i] = g.spot(items[at])
			from := spots[i].block * blockBytes
			cmds[i] = redoubt.Cmd{
				Name: "GETRANGE", Keys: []string{f.shard(g.id, spots[i].shard)},
				Args: []string{decimal(from), decimal(from + blockBytes - 1)}, Flags: redoubt.ReadOnly,
			}
		}
		for i, r := range f.send(ctx, cmds) {
			block, err := r.Text()
			switch {
			case err != nil:
				return nil, err
			case len(block) != blockBytes:
				lost = append(lost, now[i])
			default:
				may[now[i]] = spots[i].in(block)
			}
		}
	}
	return lost, nil
}

// send merges a single command with commands of other callers, and sends several as a pipeline.
func (k keys) send(ctx context.Context, cmds []redoubt.Cmd) []redoubt.Reply {
	if len(cmds) == 1 {
		return []redoubt.Reply{k.client.Do(ctx, cmds[0])}
	}
	return k.client.Pipeline(ctx, cmds)
}
