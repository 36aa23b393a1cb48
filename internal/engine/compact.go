package engine

import (
	"errors"
	"fmt"
	"hash/maphash"

	"github.com/redoubt-go/redoubt/internal/engine/aof"
)

// fold repeats records in a second engine and dumps it. With a limit of memory it works in
// parts, each of some of the keys, so that the second engine stays small. It then reads the
// records once for each part.
func (e *Engine) fold(each func(func(aof.Record) error) error, emit func(db int, commands [][][]byte) error) (err error) {
	defer func() { // the caller does not recover panics
		if r := recover(); r != nil {
			e.panicked("compaction", "", r)
			err = fmt.Errorf("engine: internal error: %s", panicText(r))
		}
	}()
	f, err := e.folding(each)
	if err != nil {
		return err
	}
	for i := range f.parts {
		if err := e.foldPart(f, i, each, emit); err != nil {
			return err
		}
	}
	return nil
}

func (e *Engine) foldPart(f *folding, part int, each func(func(aof.Record) error) error, emit func(db int, commands [][][]byte) error) error {
	second := create(Options{Clock: e.clock})
	second.startLoading()
	repeat := second.replayer()
	err := each(func(r aof.Record) error {
		if f.parts > 1 {
			if r.Commands = f.of(part, r.Commands); len(r.Commands) == 0 {
				return nil
			}
		}
		return repeat(r)
	})
	if err == nil {
		if err = second.dumpAll(emit); err == nil && part == 0 {
			err = second.dumpFunctions(emit)
		}
	}
	return errors.Join(err, second.Close())
}

const (
	foldShare = 4        // a part takes at most 1/foldShare of the memory limit
	mostParts = 16       // of a fold
	mostTied  = 16 << 20 // bytes of the names of tied keys; with more, all keys are one part
)

// A folding divides the keys into parts. Keys that one command uses together, like the two of
// RENAME, are tied: they are in the same part.
type folding struct {
	parts int
	seed  maphash.Seed
	tied  map[string]string // from a key to another key of its part
	bytes int               // of tied
	kept  [][][]byte
	at    []int
}

// folding divides the keys of some records into parts. There is one part when there is no
// limit of memory, and when too many keys are tied to each other.
func (e *Engine) folding(each func(func(aof.Record) error) error) (*folding, error) {
	f := &folding{parts: 1, seed: maphash.MakeSeed(), tied: map[string]string{}}
	limit := e.memory.limit.Load()
	if limit == 0 {
		return f, nil
	}
	f.parts = int(min(e.memory.used.Load()/max(limit/foldShare, 1)+1, mostParts))
	if f.parts == 1 {
		return f, nil
	}
	err := each(func(r aof.Record) error {
		for _, args := range r.Commands {
			cmd, keys := f.keys(args)
			switch {
			case len(keys) < 2 || cmd.separable():
			case f.bytes > mostTied:
				return errTied
			default:
				for _, at := range keys[1:] {
					f.tie(args[keys[0]], args[at])
				}
			}
		}
		return nil
	})
	if errors.Is(err, errTied) {
		f.parts, f.tied, err = 1, nil, nil
	}
	return f, err
}

var errTied = errors.New("too many keys are tied to each other")

// keys returns the positions of the keys in a command, which are valid until the next call.
func (f *folding) keys(args [][]byte) (*command, []int) {
	cmd := find(args[0])
	if cmd != nil {
		cmd = cmd.resolve(args)
	}
	if cmd == nil {
		return nil, nil // the error comes when it is repeated
	}
	f.at = cmd.keys(f.at[:0], args)
	return cmd, f.at
}

// separable reports whether a command treats each of its keys independently.
func (cmd *command) separable() bool {
	switch cmd.Name {
	case "del", "unlink", "mset":
		return true
	}
	return false
}

// root returns the key that stands for key and all keys that are tied to it.
func (f *folding) root(key string) string {
	for {
		next, ok := f.tied[key]
		if !ok {
			return key
		}
		if further, ok := f.tied[next]; ok {
			f.tied[key] = further // halves the way for the next look
		}
		key = next
	}
}

func (f *folding) tie(a, b []byte) {
	if x, y := f.root(string(a)), f.root(string(b)); x != y {
		f.tied[x] = y
		f.bytes += len(x) + len(y) + perName
	}
}

// has reports whether a key is in a part.
func (f *folding) has(part int, key []byte) bool {
	if _, ok := f.tied[text(key)]; ok {
		key = []byte(f.root(string(key)))
	}
	return maphash.Bytes(f.seed, key)%uint64(f.parts) == uint64(part) //nolint:gosec // not negative
}

// of returns the commands that concern a part. A command without keys, like FLUSHALL,
// concerns every part.
func (f *folding) of(part int, commands [][][]byte) [][][]byte {
	f.kept = f.kept[:0]
	selects := 0
	for _, args := range commands {
		cmd, keys := f.keys(args)
		switch {
		case len(keys) == 0:
			if cmd != nil && cmd.Name == "select" {
				selects++
			}
		case len(keys) > 1 && cmd.separable():
			if args = f.restrict(part, args, keys); args == nil {
				continue
			}
		case !f.has(part, args[keys[0]]):
			continue
		}
		f.kept = append(f.kept, args)
	}
	if len(f.kept) == selects {
		return nil
	}
	return f.kept
}

// restrict returns a command with only its keys of a part, or nil when it has none there.
func (f *folding) restrict(part int, args [][]byte, keys []int) [][]byte {
	step := 1
	if len(keys) > 1 {
		step = keys[1] - keys[0] // a key, and its value if it has one
	}
	out := [][]byte{args[0]}
	for _, at := range keys {
		if f.has(part, args[at]) {
			out = append(out, args[at:at+step]...)
		}
	}
	if len(out) == 1 {
		return nil
	}
	return out
}
