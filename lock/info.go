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
	// Free means that nobody holds the lock.
	Free Mode = 0
	// Exclusive means one holder: of a [Mutex], or a writer of an [RWMutex].
	Exclusive Mode = 1
	// Shared means readers of an [RWMutex].
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

// A Holder is a holder of a lock or of a permit.
type Holder struct {
	// Token is the holder's fencing token.
	Token int64
	// Since is when it acquired the lock, by the server's clock. Except for readers it is
	// the token in µs since 1970. A token is ahead of the time after the clock has stepped
	// back.
	Since time.Time
	// TTL is how long its lease still lasts unless renewed.
	TTL time.Duration
	// Label is its label, as in [Options].
	Label string
}

// Info is the state of a lock. It never contains ids: anybody with an id can release the
// lock.
type Info struct {
	// Name is the lock's.
	Name string
	// Mode is how the lock is held.
	Mode Mode
	// Count is the number of holders.
	Count int64
	// Token is the fencing token of the holder, or of the last writer; 0 when nobody has
	// held the lock for a minute.
	Token int64
	// Waiters is the number of waiting processes.
	Waiters int64
	// Holders are the holders, at most [MaxHolders], in the order in which their leases
	// end.
	Holders []Holder
}

// Info returns the state of the lock called name. A free lock is no error. One round trip.
func (m *Mutex) Info(ctx context.Context, name string) (Info, error) {
	return infoOf(ctx, m.client, name)
}

// Info returns the state of the lock called name. A free lock is no error. One round trip.
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

// SemaphoreInfo is the state of a semaphore. It never contains ids: anybody with an id
// can give the permit back.
type SemaphoreInfo struct {
	// Name is the semaphore's.
	Name string
	// Taken is the number of permits that are held.
	Taken int64
	// Token is the last fencing token; 0 when nobody has held a permit for a minute.
	Token int64
	// Waiters is the number of waiting processes.
	Waiters int64
	// Holders are the holders, at most [MaxHolders], in the order in which their permits
	// end.
	Holders []Holder
}

// Info returns the state of the semaphore called name. A free one is no error. One round
// trip.
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
