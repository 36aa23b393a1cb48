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

// A Source is a [Server] or a [File] to copy keys from.
type Source interface {
	// Name is its name in errors.
	Name() string
	// survey calls f with all keys, without values. It fills in their types if types is true.
	survey(ctx context.Context, types bool, progress func(done, total int64), f func([]item) error) error
	// each calls f with all keys and their values. It adds the keys that were deleted meanwhile to gone.
	each(ctx context.Context, gone *int64, f func(batch []rdb.Entry) error) error
	total() int64
	// libraries returns the code of the libraries of functions. It comes after survey.
	libraries(ctx context.Context) ([]string, error)
}

// A Target is a [Server] or a [NewFile] to copy keys to.
type Target interface {
	// Name is its name in errors.
	Name() string
	// picky reports whether there are types that the target is known not to store.
	picky() bool
	// empty reports whether the target is known to have no keys. A pool never is.
	empty() bool
	// prepare returns an error if the target can't have these databases.
	prepare(ctx context.Context, dbs []int) error
	// taken adds the keys that exist in the target to found.
	taken(ctx context.Context, items []item, found *TakenError) error
	// has returns the names of the target's libraries of functions. able reports whether it can have any.
	has() (libraries []string, able bool)
	// load writes libraries, before all keys: all of them, or none and an error.
	load(ctx context.Context, libraries []string, replace bool) error
	// put writes keys. It calls wrote for each key in order, with the target's error if it refused the key,
	// and returns the error of the connection.
	put(ctx context.Context, batch []rdb.Entry, replace bool, wrote func(e *rdb.Entry, err error)) error
	// finish makes the written keys permanent. Without it a file does not appear under its name.
	finish() error
}

// An item is a key, with a description of its value if not every target can store it.
type item struct {
	rdb.Entry
	what string
}

// Options are options of [Move]. With the zero value Move fails if it can't copy every key.
type Options struct {
	// Replace overwrites keys that exist in the target.
	Replace bool
	// SkipUnsupported leaves out and counts keys and libraries that the target can't store.
	SkipUnsupported bool
	// Progress is called many times a second. While the source is checked, it counts keys or bytes.
	// Defaults to none.
	Progress func(p Progress)
	// Now returns the time. Defaults to time.Now.
	Now func() time.Time
}

// Progress is the progress of a move.
type Progress struct {
	Checking    bool  // nothing is written yet
	Done, Total int64 // Total is an estimate
}

// Result counts what a move did. It is valid beside an error, too.
type Result struct {
	Keys      int64            // written to the target
	Expired   int64            // not written, because they had expired
	Gone      int64            // deleted or expired at the source meanwhile
	Skipped   map[string]int64 // not written, by type, because the target can't store them
	Libraries int64            // of functions, written to the target
	Functions int64            // libraries of functions, not written, because the target has none
	Unknown   int64            // sent to the target without an answer
}

// A TakenError says that keys of the source exist in the target.
type TakenError struct {
	Count int64 // of the keys found so far
	DB    int   // the database of the first
	Key   []byte
	// Libraries of functions that exist in the target.
	Libraries []string
}

func (e *TakenError) Error() string {
	switch {
	case e.Count == 0 && len(e.Libraries) == 1:
		return fmt.Sprintf("library %.100q of functions exists already", e.Libraries[0])
	case e.Count == 0:
		return fmt.Sprintf("%d libraries of functions exist already, like %.100q", len(e.Libraries), e.Libraries[0])
	}
	if e.Count == 1 {
		return fmt.Sprintf("key %.100q in database %d exists already", e.Key, e.DB)
	}
	return fmt.Sprintf("%d keys exist already, like %.100q in database %d", e.Count, e.Key, e.DB)
}

// An UnsupportedError says that the target can't store some values.
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

// List formats types with their counts, like "2 values of a module and 1 library of functions".
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

// ErrPool is matched by the error for a source that doesn't tell what keys it has: a pool of servers, or another
// proxy. Copy from each server behind it.
var ErrPool = errors.New("it is a pool of servers or another proxy, because its INFO has no Keyspace")

type move struct {
	from   Source
	to     Target
	opts   Options
	result Result

	libraries []string // to write
}

// Move copies all keys of from to to. When ctx ends, keys in progress still arrive. The error is a
// [TakenError] or an [UnsupportedError] if keys exist in the target or it can't store them, and matches
// [ErrPool] if from is a pool.
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

// survey finds problems before anything is written.
func (m *move) survey(ctx context.Context) error {
	dbs := map[int]bool{}
	unsupported := &UnsupportedError{Counts: map[string]int64{}}
	taken := &TakenError{}
	compare := !m.opts.Replace && !m.to.empty()
	progress := func(done, total int64) { m.opts.Progress(Progress{Checking: true, Done: done, Total: total}) }
	server, isServer := m.from.(*Server)
	if isServer && !server.listed {
		return ErrPool
	}
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
	if m.libraries, err = m.from.libraries(ctx); err != nil {
		return err
	}
	if has, able := m.to.has(); !able {
		m.result.Functions = int64(len(m.libraries))
		unsupported.Functions = m.result.Functions
		m.libraries = nil
	} else if !m.opts.Replace {
		for _, code := range m.libraries {
			l, err := rdb.ParseLibrary(code)
			if err != nil {
				return fmt.Errorf("%s: a library of functions: %w", m.from.Name(), err)
			}
			if slices.Contains(has, l.Name) {
				taken.Libraries = append(taken.Libraries, l.Name)
			}
		}
	}
	if !m.opts.SkipUnsupported && (len(unsupported.Counts) > 0 || unsupported.Functions > 0) {
		return unsupported
	}
	if taken.Count > 0 || len(taken.Libraries) > 0 {
		return taken
	}
	var all []int
	for db := range dbs {
		all = append(all, db)
	}
	slices.Sort(all)
	return m.to.prepare(ctx, all)
}

// write copies the libraries of functions, and then the keys. One goroutine reads keys from the source, and this one
// writes them to the target.
func (m *move) write(ctx context.Context) error {
	if len(m.libraries) > 0 {
		if err := m.to.load(ctx, m.libraries, m.opts.Replace); err != nil {
			return err
		}
		m.result.Libraries = int64(len(m.libraries))
	}
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
		// Not cancelled by ctx, so that every sent key is counted.
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
				what = "hash with expiring fields"
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

// skip counts a key that the target can't store, or returns an error.
func (m *move) skip(e *rdb.Entry, what string) error {
	if m.opts.SkipUnsupported {
		m.result.Skipped[what]++
		return nil
	}
	return &UnsupportedError{Counts: map[string]int64{what: 1}, DB: e.DB, Key: e.Key}
}
