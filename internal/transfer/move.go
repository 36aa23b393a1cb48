package transfer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redoubt-go/redoubt/internal/rdb"
)

// A Source is where keys come from: a [Server] or a [File].
type Source interface {
	// Name is how errors call it.
	Name() string
	// survey goes over all keys. It gives their types, if they are wanted, but
	// no values.
	survey(ctx context.Context, types bool, progress func(done, total int64), f func([]item) error) error
	// each goes over all keys with their values, and says how many there are,
	// as far as it is known. gone counts those that were deleted meanwhile.
	each(ctx context.Context, gone *int64, f func(batch []rdb.Entry) error) error
	total() int64
}

// A Target is where keys are brought to: a [Server] or a [NewFile].
type Target interface {
	// Name is how errors call it.
	Name() string
	// picky says whether there are types that the target surely has no place for.
	picky() bool
	// empty says that no key is there.
	empty() bool
	// prepare makes sure that there are these databases.
	prepare(ctx context.Context, dbs []int) error
	// taken counts the keys that are there.
	taken(ctx context.Context, items []item, found *TakenError) error
	// put writes keys. It calls wrote for each that was written, or refused
	// with the reason, in order, and returns what ended the connection.
	put(ctx context.Context, batch []rdb.Entry, replace bool, wrote func(e *rdb.Entry, err error)) error
	// finish makes what was written stay. Without it a file is no file.
	finish() error
}

// An item is a key on its way, with what its value is if that is no type that
// everybody knows.
type item struct {
	rdb.Entry
	what string
}

// Options say how to [Move]. The zero value refuses what can't be done whole.
type Options struct {
	// Replace overwrites keys that the target has already.
	Replace bool
	// SkipUnsupported leaves out keys that the target has no place for, and
	// functions, and counts them.
	SkipUnsupported bool
	// Progress is told how far the move is, many times a second. Defaults to
	// none. While the source is checked, what is counted may be keys or bytes.
	Progress func(p Progress)
	// Now tells the time. Defaults to time.Now.
	Now func() time.Time
}

// Progress is how far a move is.
type Progress struct {
	Checking    bool  // nothing is written yet
	Done, Total int64 // Total is an estimate
}

// Result is what a move did, also when it failed.
type Result struct {
	Keys      int64            // written to the target
	Expired   int64            // not written, because their time was over
	Gone      int64            // deleted or expired at the source meanwhile
	Skipped   map[string]int64 // not written, by the type that the target can't hold
	Functions int64            // libraries that stayed behind
	Unknown   int64            // sent to the target, which didn't answer
}

// A TakenError says that the target has keys of the source already.
type TakenError struct {
	Count int64 // how many, as far as is known
	DB    int   // the database of the first
	Key   []byte
}

func (e *TakenError) Error() string {
	if e.Count == 1 {
		return fmt.Sprintf("key %.100q in database %d exists already", e.Key, e.DB)
	}
	return fmt.Sprintf("%d keys exist already, like %.100q in database %d", e.Count, e.Key, e.DB)
}

// An UnsupportedError says that the target has no place for some values.
type UnsupportedError struct {
	Counts    map[string]int64 // by type
	Functions int64
	DB        int // the database of the first
	Key       []byte
}

func (e *UnsupportedError) Error() string {
	text := "the target can't store " + List(e.Counts, e.Functions)
	if e.Key != nil {
		text += fmt.Sprintf(", like key %.100q in database %d", e.Key, e.DB)
	}
	return text
}

// List names types with their counts, like "2 streams and 1 library of functions".
func List(counts map[string]int64, functions int64) string {
	var parts []string
	for what, n := range counts {
		if n > 1 {
			first, rest, of := strings.Cut(what, " ") // values of a module
			what = first + "s"
			if strings.HasSuffix(first, "sh") {
				what = first + "es"
			}
			if of {
				what += " " + rest
			}
		}
		parts = append(parts, fmt.Sprintf("%d %s", n, what))
	}
	slices.Sort(parts)
	switch {
	case functions == 1:
		parts = append(parts, "1 library of functions")
	case functions > 1:
		parts = append(parts, fmt.Sprintf("%d libraries of functions", functions))
	}
	return strings.Join(parts, " and ")
}

type move struct {
	from   Source
	to     Target
	opts   Options
	result Result
}

// Move brings all keys from one place to another. When ctx ends, the keys that
// are under way still arrive. Its error is a [TakenError] or an
// [UnsupportedError] where they say what stands in the way.
func Move(ctx context.Context, from Source, to Target, opts Options) (Result, error) {
	if opts.Progress == nil {
		opts.Progress = func(Progress) {}
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	m := &move{from: from, to: to, opts: opts, result: Result{Skipped: map[string]int64{}}}
	err := m.survey(ctx)
	if err == nil {
		err = m.write(ctx)
	}
	if err == nil {
		err = to.finish()
	}
	return m.result, err
}

func (m *move) expired(e *rdb.Entry) bool {
	return e.Deadline != 0 && e.Deadline <= m.opts.Now().UnixMilli()
}

// survey finds out what stands in the way before anything is written.
func (m *move) survey(ctx context.Context) error {
	dbs := map[int]bool{}
	unsupported := &UnsupportedError{Counts: map[string]int64{}}
	taken := &TakenError{}
	compare := !m.opts.Replace && !m.to.empty()
	progress := func(done, total int64) { m.opts.Progress(Progress{Checking: true, Done: done, Total: total}) }
	file, isFile := m.from.(*File)
	server, isServer := m.from.(*Server)
	var err error
	if isServer && !compare && !m.to.picky() {
		for db := range server.databases() {
			dbs[db] = true
		}
	} else {
		err = m.from.survey(ctx, m.to.picky(), progress, func(items []item) error {
			wanted := items[:0]
			for _, it := range items {
				dbs[it.DB] = true
				switch {
				case m.expired(&it.Entry):
				case it.what != "" && m.to.picky():
					if unsupported.Counts[it.what]++; unsupported.Key == nil {
						unsupported.DB, unsupported.Key = it.DB, it.Key
					}
				default:
					wanted = append(wanted, it)
				}
			}
			if !compare {
				return nil
			}
			return m.to.taken(ctx, wanted, taken)
		})
	}
	if err != nil {
		return err
	}
	if isFile {
		unsupported.Functions = file.functions
		m.result.Functions = file.functions
	}
	if !m.opts.SkipUnsupported && (len(unsupported.Counts) > 0 || unsupported.Functions > 0) {
		return unsupported
	}
	if taken.Count > 0 {
		return taken
	}
	var all []int
	for db := range dbs {
		all = append(all, db)
	}
	slices.Sort(all)
	return m.to.prepare(ctx, all)
}

// write moves the keys. One goroutine takes them from the source, this one
// brings them to the target.
func (m *move) write(ctx context.Context) error {
	reading, stop := context.WithCancel(ctx)
	defer stop()
	batches := make(chan []rdb.Entry, 1)
	read := make(chan error, 1)
	var gone int64
	go func() {
		err := m.from.each(reading, &gone, func(batch []rdb.Entry) error {
			select {
			case batches <- batch:
				return nil
			case <-reading.Done():
				return reading.Err()
			}
		})
		close(batches)
		read <- err
	}()
	var failed error
	for batch := range batches {
		if failed != nil || ctx.Err() != nil {
			continue
		}
		// Not ended by ctx: what was sent shall be counted.
		if failed = m.put(context.WithoutCancel(ctx), batch); failed != nil {
			stop()
		}
	}
	err := <-read
	m.result.Gone = gone
	if failed != nil {
		return failed
	}
	return err
}

// put writes a batch.
func (m *move) put(ctx context.Context, batch []rdb.Entry) error {
	live := batch[:0]
	for _, e := range batch {
		switch what := rdb.Unsupported(e.Payload); {
		case m.expired(&e):
			m.result.Expired++
		case what != "" && m.to.picky():
			if err := m.skip(&e, what); err != nil {
				return err
			}
		default:
			live = append(live, e)
		}
	}
	unanswered := int64(len(live))
	var failed error
	err := m.to.put(ctx, live, m.opts.Replace, func(e *rdb.Entry, err error) {
		unanswered--
		switch {
		case err == nil:
			m.result.Keys++
		case errors.Is(err, rdb.ErrNewer):
			what := "value of a newer Redis"
			if rdb.FieldTTL(e.Payload) {
				what = "hash whose fields have a time to live"
			}
			if err := m.skip(e, what); failed == nil {
				failed = err
			}
		case failed == nil:
			failed = err
		}
	})
	m.opts.Progress(Progress{Done: m.result.Keys, Total: max(m.from.total(), m.result.Keys)})
	if failed != nil {
		return failed
	}
	m.result.Unknown += unanswered
	return err
}

// skip counts a key that the target can't hold, or returns an error.
func (m *move) skip(e *rdb.Entry, what string) error {
	if m.opts.SkipUnsupported {
		m.result.Skipped[what]++
		return nil
	}
	return &UnsupportedError{Counts: map[string]int64{what: 1}, DB: e.DB, Key: e.Key}
}
