package aof

import (
	"os"
	"path/filepath"
	"runtime"
)

// Dir returns the directory at path, which is made when it is missing.
func Dir(path string) (FS, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, err
	}
	path, err := filepath.Abs(path)
	return dir(path), err
}

type dir string

type osFile struct{ *os.File }

func (f osFile) Size() (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

func (d dir) path(name string) string { return filepath.Join(string(d), name) }

func (d dir) open(name string, flags int) (File, error) {
	f, err := os.OpenFile(d.path(name), flags, 0o600)
	if err != nil {
		return nil, err
	}
	return osFile{f}, nil
}

func (d dir) Create(name string) (File, error) { return d.open(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC) }
func (d dir) Open(name string) (File, error)   { return d.open(name, os.O_RDWR) }
func (d dir) Rename(from, to string) error     { return os.Rename(d.path(from), d.path(to)) }
func (d dir) Remove(name string) error         { return os.Remove(d.path(name)) }

func (d dir) List() ([]string, error) {
	entries, err := os.ReadDir(string(d))
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
	f, err := os.Open(string(d))
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}
