package aof

import (
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
)

// Dir returns the directory at path, which is made when it is missing. It stays
// that directory when it is moved, and another takes its place.
func Dir(path string) (FS, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, err
	}
	return dir{root}, nil
}

// A dir is never closed: the garbage collector does that once the log is closed.
type dir struct{ root *os.Root }

type osFile struct {
	*os.File
	root *os.Root
	name string
}

func (f osFile) Linked() error {
	there, err := f.root.Lstat(f.name)
	if err != nil {
		return err
	}
	self, err := f.Stat()
	if err == nil && !os.SameFile(there, self) {
		err = &fs.PathError{Op: "find", Path: f.name, Err: fs.ErrNotExist}
	}
	return err
}

func (f osFile) Size() (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// path is where a file was when the directory was opened, for errors.
func (d dir) path(name string) string { return filepath.Join(d.root.Name(), name) }

func (d dir) open(name string, flags int) (File, error) {
	f, err := d.root.OpenFile(name, flags, 0o600)
	if err != nil {
		return nil, err
	}
	return osFile{f, d.root, name}, nil
}

func (d dir) Create(name string) (File, error) { return d.open(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC) }
func (d dir) Open(name string) (File, error)   { return d.open(name, os.O_RDWR) }
func (d dir) Rename(from, to string) error     { return d.root.Rename(from, to) }
func (d dir) Remove(name string) error         { return d.root.Remove(name) }

func (d dir) List() ([]string, error) {
	entries, err := fs.ReadDir(d.root.FS(), ".")
	var names []string
	for _, e := range entries {
		if e.Type().IsRegular() {
			names = append(names, e.Name())
		}
	}
	return names, err
}

func (d dir) Sync() error {
	if runtime.GOOS == "windows" {
		return nil // a directory can't be synced there; the file system's journal keeps the order
	}
	f, err := d.root.Open(".")
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}
