package lock

import (
	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/randid"
)

// The last parts of the keys by which locks and semaphores are listed.
const (
	lockPart      = "lock"
	semaphorePart = "sem"
)

// Keys returns the key of the lock called name, alone in a slice. An invalid name gives an error
// that matches redoubt.ErrInvalidName.
func Keys(client *redoubt.Client, name string) ([]string, error) {
	return keysOf(client, name, lockPart)
}

// RWKeys returns the keys of the lock called name that may have readers. The first is that of Keys.
func RWKeys(client *redoubt.Client, name string) ([]string, error) {
	return keysOf(client, name, lockPart, "readers", "labels")
}

// SemaphoreKeys returns the keys of the semaphore called name.
func SemaphoreKeys(client *redoubt.Client, name string) ([]string, error) {
	return keysOf(client, name, semaphorePart, "permits")
}

// LatchKey returns the key of the latch called name.
func LatchKey(client *redoubt.Client, name string) (string, error) { return client.Key(name, "latch") }

// keysOf returns the keys of name with the given parts.
func keysOf(client *redoubt.Client, name string, parts ...string) ([]string, error) {
	keys := make([]string, len(parts))
	for i, part := range parts {
		var err error
		if keys[i], err = client.Key(name, part); err != nil {
			return nil, err
		}
	}
	return keys, nil
}

// NewID returns the name of a new acquisition: 128 random bits as 32
// hexadecimal digits.
func NewID() string { return randid.Hex(16) }
