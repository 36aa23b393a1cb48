package transfer

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"os"
	"slices"

	"github.com/redoubt-go/redoubt/internal/rdb"
)

// A File is an RDB file to copy keys from. Only one goroutine at a time may use it.
type File struct {
	f         *os.File
	path      string
	size      int64
	keys      int64
	functions []string // the code of the libraries
}

// OpenFile opens an RDB file. [Move] reads it twice.
func OpenFile(path string) (*File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is no file that can be read twice", path)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return &File{f: f, path: path, size: info.Size()}, nil
}

// Close closes the file.
func (f *File) Close() { f.f.Close() }

// Name is the path of the file.
func (f *File) Name() string { return f.path }

func (f *File) total() int64 { return f.keys }

// read iterates over the keys of the file.
func (f *File) read(ctx context.Context, key func(r *rdb.FileReader, e rdb.Entry) error) (err error) {
	defer func() {
		if fe, ok := errors.AsType[*rdb.FileError](err); ok {
			err = fmt.Errorf("%s: %w", f.path, fe)
		}
	}()
	if _, err := f.f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	r, err := rdb.NewFileReader(f.f)
	if err != nil {
		return err
	}
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		e, err := r.Next()
		if errors.Is(err, io.EOF) {
			f.functions = r.Libraries()
			return nil
		} else if err != nil {
			return err
		}
		if err := key(r, e); err != nil {
			return err
		}
	}
}

// survey implements [Source]. It decodes all values, so that it finds any damage of the file.
func (f *File) survey(ctx context.Context, _ bool, progress func(done, total int64), give func([]item) error) error {
	var items []item
	flush := func(r *rdb.FileReader) error {
		progress(r.Offset(), f.size)
		err := give(items)
		items = items[:0]
		return err
	}
	f.keys = 0
	seen := newKeySums()
	var last *rdb.FileReader
	err := f.read(ctx, func(r *rdb.FileReader, e rdb.Entry) error {
		if err := rdb.Check(e.Payload); err != nil {
			return &rdb.FileError{Offset: r.Offset(), Reason: fmt.Sprintf("the value of key %.100q, which ends here, is invalid: %v", e.Key, err)}
		}
		last = r
		f.keys++
		seen.add(&e)
		it := item{Entry: e, what: rdb.Unsupported(e.Payload)}
		it.Payload = nil
		if items = append(items, it); len(items) < pageKeys {
			return nil
		}
		return flush(r)
	})
	if err == nil && last != nil {
		err = flush(last)
	}
	if err == nil {
		err = f.distinct(ctx, seen)
	}
	return err
}

// keySums finds duplicate keys with eight bytes of memory per key.
type keySums struct {
	seed maphash.Seed
	sums []uint64
}

func newKeySums() *keySums { return &keySums{seed: maphash.MakeSeed()} }

func (k *keySums) of(e *rdb.Entry) uint64 {
	return maphash.Bytes(k.seed, e.Key) + uint64(e.DB) //nolint:gosec // a hash
}

func (k *keySums) add(e *rdb.Entry) { k.sums = append(k.sums, k.of(e)) }

// distinct returns an error if the file has a key twice. No Redis writes such a file, and the move would
// trip over the key that it wrote itself. If the sums of two keys are equal, it reads the file again to
// compare the keys.
func (f *File) distinct(ctx context.Context, seen *keySums) error {
	slices.Sort(seen.sums)
	suspects := map[uint64]map[string]bool{}
	for i := 1; i < len(seen.sums); i++ {
		if seen.sums[i] == seen.sums[i-1] {
			suspects[seen.sums[i]] = map[string]bool{}
		}
	}
	if len(suspects) == 0 {
		return nil
	}
	return f.read(ctx, func(r *rdb.FileReader, e rdb.Entry) error {
		found := suspects[seen.of(&e)]
		name := fmt.Sprintf("%d %s", e.DB, e.Key)
		switch {
		case found == nil:
		case found[name]:
			return &rdb.FileError{Offset: r.Offset(), Reason: fmt.Sprintf("key %.100q is twice in database %d", e.Key, e.DB)}
		default:
			found[name] = true
		}
		return nil
	})
}

// each implements [Source].
func (f *File) each(ctx context.Context, _ *int64, give func([]rdb.Entry) error) error {
	var batch []rdb.Entry
	bytes := 0
	err := f.read(ctx, func(_ *rdb.FileReader, e rdb.Entry) error {
		batch = append(batch, e)
		if bytes += len(e.Payload); len(batch) < batchKeys && bytes < batchBytes {
			return nil
		}
		err := give(batch)
		batch, bytes = nil, 0
		return err
	})
	if err == nil && len(batch) > 0 {
		err = give(batch)
	}
	return err
}
