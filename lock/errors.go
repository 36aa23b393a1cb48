package lock

import (
	"errors"
	"fmt"
	"time"
)

var (
	// ErrNotHeld is matched when a lease ended without being released: by
	// ErrRanOut, by ErrTaken, and by the server's refusal of a lease that
	// another process acquired. Another holder may have the lock now.
	ErrNotHeld = errors.New("lock: not held")

	// ErrRanOut is matched when a lease reached its deadline: nobody renewed
	// it, or the server was unreachable for too long. It matches ErrNotHeld.
	ErrRanOut = fmt.Errorf("%w: the lease ran out at its deadline", ErrNotHeld)

	// ErrTaken is matched when the server ended a lease before its deadline:
	// another client released it by force, or the server lost its data. It
	// matches ErrNotHeld.
	ErrTaken = fmt.Errorf("%w: the server ended the lease before its deadline: it was released by force, or the server lost its data", ErrNotHeld)

	// ErrReleased is the result of [Lease.Err] after [Lease.Release].
	ErrReleased = errors.New("lock: released")

	// ErrHandedOver is the result of [Lease.Err] after [Lease.HandOver].
	ErrHandedOver = errors.New("lock: handed over")

	// ErrBusy is matched by the error of [Busy.Err].
	ErrBusy = errors.New("lock: busy")

	// ErrUpgrade is matched when a reader of an [RWMutex] asks for the write
	// lock on the same name: it would wait for itself.
	ErrUpgrade = errors.New("lock: a reader can't become the writer of what it reads")

	// ErrNotReplicated is matched when the lock was acquired but too few replicas
	// confirmed it: see Options.Replicas. The lock has been released.
	ErrNotReplicated = errors.New("lock: not replicated")

	// ErrNoMajority is matched when a [Quorum] could not reach a majority of its
	// masters.
	ErrNoMajority = errors.New("lock: no majority of the masters could be reached")

	// ErrNotSet is matched when a latch has not been set, or its TTL has ended.
	ErrNotSet = errors.New("lock: latch is not set")
)

const (
	// DefaultTTL is the TTL of a lease whose options set none.
	DefaultTTL = 30 * time.Second
	// DefaultReplicaTimeout is the default of Options.ReplicaTimeout, unless half
	// the TTL is shorter.
	DefaultReplicaTimeout = time.Second
	// DefaultLatchTTL is the TTL of a [Latch] whose options set none.
	DefaultLatchTTL = 24 * time.Hour

	// MinTTL and MaxTTL bound every TTL of this package.
	MinTTL = time.Millisecond
	MaxTTL = 365 * 24 * time.Hour
	// MaxLabel is the longest label, in bytes.
	MaxLabel = 256
	// MaxMember is the longest name of a latch's member, in bytes.
	MaxMember = 256
	// MaxLimit is the largest number of permits of a [Semaphore], and the largest
	// count of a [Latch].
	MaxLimit = 1_000_000
	// MaxNames is the largest number of names in one lease of a [Multi].
	MaxNames = 256
	// MaxMasters is the largest number of masters of a [Quorum].
	MaxMasters = 15
	// MaxReplicas is the largest Options.Replicas.
	MaxReplicas = 100
	// MaxHolders is the largest number of holders that an [Info] or a
	// [SemaphoreInfo] lists.
	MaxHolders = 100
)
