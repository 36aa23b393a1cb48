package transfer

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/redoubt-go/redoubt/internal/rdb"
)

// A NewFile is an RDB file to copy keys to. It has a temporary name until it is complete and on disk; until
// then an existing file of its name stays.
type NewFile struct {
	path    string
	version int
	replace bool
	tmp     *os.File
	w       *rdb.FileWriter
}

// CreateFile creates an RDB file of the given version: 9 for Redis 5.0 to 6.2, 10 for 7.0, 11 for 7.2, 12
// for 7.4 and later. If the file exists already, it returns an error that matches [fs.ErrExist], unless
// replace is true.
func CreateFile(path string, version int, replace bool) (*NewFile, error) {
	f := &NewFile{path: path, version: version, replace: replace}
	if err := f.free(); err != nil {
		return nil, err
	}
	var err error
	if f.tmp, err = os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*.tmp"); err != nil {
		return nil, err
	}
	if f.w, err = rdb.NewFileWriter(f.tmp, version, time.Now()); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// free returns an error if the name is taken.
func (f *NewFile) free() error {
	info, err := os.Stat(f.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.IsDir():
		return fmt.Errorf("%s is a directory; name a file", f.path)
	case !f.replace:
		return &fs.PathError{Op: "create", Path: f.path, Err: fs.ErrExist}
	}
	return nil
}

// Close removes an unfinished file.
func (f *NewFile) Close() {
	if f.tmp != nil {
		f.tmp.Close()
		_ = os.Remove(f.tmp.Name()) // a leftover under a temporary name does no harm
		f.tmp = nil
	}
}

// Name is the path of the file.
func (f *NewFile) Name() string { return f.path }

func (f *NewFile) picky() bool                                      { return false }
func (f *NewFile) empty() bool                                      { return true }
func (f *NewFile) prepare(context.Context, []int) error             { return nil }
func (f *NewFile) taken(context.Context, []item, *TakenError) error { return nil }

// put implements [Target].
func (f *NewFile) put(_ context.Context, batch []rdb.Entry, _ bool, wrote func(*rdb.Entry, error)) error {
	for i := range batch {
		e := &batch[i]
		err := f.w.Write(*e)
		if err != nil && !errors.Is(err, rdb.ErrNewer) {
			return err
		}
		wrote(e, err)
	}
	return nil
}

// finish implements [Target].
func (f *NewFile) finish() error {
	err := f.w.Close()
	if err == nil {
		err = f.tmp.Sync()
	}
	if err == nil {
		err = f.free()
	}
	if err != nil {
		return err
	}
	name := f.tmp.Name()
	if err = f.tmp.Close(); err == nil {
		err = os.Rename(name, f.path)
	}
	if err != nil {
		return err
	}
	f.tmp = nil
	return syncDir(filepath.Dir(f.path))
}

// syncDir syncs a directory, so that a new name in it survives a power cut.
func syncDir(path string) error {
	if runtime.GOOS == "windows" {
		return nil // Windows can't sync a directory
	}
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
