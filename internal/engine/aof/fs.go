package aof

import (
	"errors"
	"io"
)

// ErrLocked says that another process, or another [Log] of this one, has the
// directory open.
var ErrLocked = errors.New("aof: the directory is in use")

// An FS is the directory of a log. [Dir] returns a real one; tests put in one
// that loses what was not synced. Names have no directory in them.
type FS interface {
	// Create makes an empty file, in place of one that is there.
	Create(name string) (File, error)
	// Open opens a file for reading and writing. The error matches
	// [io/fs.ErrNotExist] when there is none.
	Open(name string) (File, error)
	// Rename gives a file another name, in place of one that has it.
	Rename(from, to string) error
	Remove(name string) error
	// List returns the names of all files.
	List() ([]string, error)
	// Sync makes what Create, Rename and Remove did survive a power cut.
	Sync() error
	// Lock takes the directory for this process until it is closed or the
	// process ends. The error matches [ErrLocked] when it is taken.
	Lock() (io.Closer, error)
}

// A File is a file of an [FS].
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	// Linked says whether the file is still there by the name by which it was
	// opened. The error matches [io/fs.ErrNotExist] when it is not: what is
	// written to it would be gone when it is closed.
	Linked() error
	Truncate(size int64) error
	// Sync makes what was written survive a power cut.
	Sync() error
	Size() (int64, error)
}
