package aof

import (
	"errors"
	"io"
)

// ErrLocked says that another process, or another [Log] of this one, has the
// directory open.
var ErrLocked = errors.New("aof: the directory is in use")

// An FS is the directory of a log. [Dir] returns a real one; tests use one that loses unsynced
// writes. Names are names of files, without a directory.
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
	// Sync makes the effects of Create, Rename and Remove survive a power cut.
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
	// Linked checks that the file still has the name by which it was opened. The error matches
	// [io/fs.ErrNotExist] when it has not: data written to it is lost when it is closed.
	Linked() error
	Truncate(size int64) error
	// Sync makes the written data survive a power cut.
	Sync() error
	Size() (int64, error)
}
