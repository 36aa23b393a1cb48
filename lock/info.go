package lock

import (
	"context"
	"time"

	"github.com/redoubt-go/redoubt"
	wire "github.com/redoubt-go/redoubt/internal/wire/lock"
)

// A Mode is how a lock is held.
type Mode int8

const (
	// Free: nobody holds the lock.
	Free Mode = 0
	// Exclusive: one holder does, of a [Mutex] or a writer of an [RWMutex].
	Exclusive Mode = 1
	// Shared: readers do.
	Shared Mode = 2
)

func (m Mode) String() string {
	switch m {
	case Exclusive:
		return "exclusive"
	case Shared:
		return "shared"
	default:
		return "free"
	}
}

// A Holder is one of those who hold a lock or a permit.
type Holder struct {
	// Token is its fencing token.
	Token int64
	// Since is when it acquired, by the server's clock. Except for readers it
	// is what the token tells, for a token is the time in µs, or one more than
	// the last one where that is ahead.
	Since time.Time
	// TTL is the time left to it.
	TTL time.Duration
	// Label is its own.
	Label string
}

// Info is the state of a lock. It never contains ids: who knows an id can
// release the lock.
type Info struct {
	// Name is the lock's.
	Name string
	// Mode is how the lock is held.
	Mode Mode
	// Count is how many hold it.
	Count int64
	// Token is the fencing token of the holder, or of the last writer; 0 when
	// the lock has not been held for a minute.
	Token int64
	// Waiters is the number of processes that wait.
	Waiters int64
	// Holders are those who hold it, at most [MaxHolders] of them, the one whose
	// lease ends first first.
	Holders []Holder
}

// Info returns the state of the lock called name: one round trip.
func (m *Mutex) Info(ctx context.Context, name string) (Info, error) {
	return infoOf(ctx, m.client, name)
}

// Info returns the state of the lock called name: one round trip.
func (rw *RWMutex) Info(ctx context.Context, name string) (Info, error) {
	return infoOf(ctx, rw.client, name)
}

func infoOf(ctx context.Context, client *redoubt.Client, name string) (Info, error) {
	keys, err := wire.RWKeys(client, name)
	if err != nil {
		return Info{}, err
	}
	i, err := wire.ReadInfo(client.Do(ctx, wire.InfoCmd(keys)))
	return info(name, i), err
}

func info(name string, i wire.Info) Info {
	return Info{Name: name, Mode: Mode(i.Mode), Count: i.Count, Token: i.Token, Waiters: i.Waiters, Holders: holders(i.Holders)}
}

// SemaphoreInfo is the state of a semaphore. It never contains ids: who knows an
// id can give the permit back.
type SemaphoreInfo struct {
	// Name is the semaphore's.
	Name string
	// Taken is the number of permits that are held now.
	Taken int64
	// Token is the last fencing token; 0 when no permit has been held for a
	// minute.
	Token int64
	// Waiters is the number of processes that wait.
	Waiters int64
	// Holders are those who hold permits, at most [MaxHolders] of them, the one
	// whose permit ends first first.
	Holders []Holder
}

// Info returns the state of the semaphore called name: one round trip.
func (s *Semaphore) Info(ctx context.Context, name string) (SemaphoreInfo, error) {
	keys, err := wire.SemaphoreKeys(s.client, name)
	if err != nil {
		return SemaphoreInfo{}, err
	}
	i, err := wire.ReadSemaphoreInfo(s.client.Do(ctx, wire.SemaphoreInfoCmd(keys)))
	return semaphoreInfo(name, i), err
}

func semaphoreInfo(name string, i wire.SemaphoreInfo) SemaphoreInfo {
	return SemaphoreInfo{Name: name, Taken: i.Taken, Token: i.Token, Waiters: i.Waiters, Holders: holders(i.Holders)}
}

func holders(from []wire.Holder) (to []Holder) {
	for _, h := range from {
		to = append(to, Holder(h))
	}
	return to
}
