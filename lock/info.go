package lock

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/redoubt-go/redoubt"
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

// MaxHolders is how many holders are listed at most.
const MaxHolders = 100

// Info is the state of a lock. It never contains ids: who knows an id can
// release the lock.
type Info struct {
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
	cmd, err := InfoCmd(client, name)
	if err != nil {
		return Info{}, err
	}
	return ReadInfo(client.Do(ctx, cmd))
}

// InfoCmd asks for the state of the lock called name.
func InfoCmd(client *redoubt.Client, name string) (redoubt.Cmd, error) {
	keys, err := rwKeys(client, name)
	return infoCmd(rwInfoScript, keys), err
}

func infoCmd(script *redoubt.Script, keys []string) redoubt.Cmd {
	return redoubt.Cmd{Script: script, Keys: keys, Args: []string{strconv.Itoa(MaxHolders)}, Flags: redoubt.ReadOnly}
}

// ReadInfo reads the reply to [InfoCmd].
func ReadInfo(r redoubt.Reply) (Info, error) {
	n, holders, err := intsAndHolders(r, 4)
	if err != nil {
		return Info{}, err
	}
	return Info{Mode: Mode(n[0]), Count: n[1], Token: n[2], Waiters: n[3], Holders: holders}, nil
}

// SemaphoreInfo is the state of a semaphore. It never contains ids: who knows an
// id can give the permit back.
type SemaphoreInfo struct {
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
	cmd, err := SemaphoreInfoCmd(s.client, name)
	if err != nil {
		return SemaphoreInfo{}, err
	}
	return ReadSemaphoreInfo(s.client.Do(ctx, cmd))
}

// SemaphoreInfoCmd asks for the state of the semaphore called name.
func SemaphoreInfoCmd(client *redoubt.Client, name string) (redoubt.Cmd, error) {
	keys, err := semaphoreKeys(client, name)
	return infoCmd(semInfoScript, keys), err
}

// ReadSemaphoreInfo reads the reply to [SemaphoreInfoCmd].
func ReadSemaphoreInfo(r redoubt.Reply) (SemaphoreInfo, error) {
	n, holders, err := intsAndHolders(r, 3)
	if err != nil {
		return SemaphoreInfo{}, err
	}
	return SemaphoreInfo{Taken: n[0], Token: n[1], Waiters: n[2], Holders: holders}, nil
}

// intsAndHolders reads an array of n integers and, last, an array of holders:
// token, time left in µs, since when in µs, and label in turn.
func intsAndHolders(r redoubt.Reply, n int) (ints []int64, holders []Holder, err error) {
	const fields = 4
	a, err := r.Array()
	if err != nil {
		return nil, nil, err
	}
	if len(a) != n+1 {
		return nil, nil, fmt.Errorf("lock: reply has %d elements, want %d", len(a), n+1)
	}
	ints = make([]int64, n)
	if err := (redoubt.Reply{Val: a[:n]}).Ints(ints); err != nil {
		return nil, nil, err
	}
	list, err := redoubt.Reply{Val: a[n]}.Array()
	for ; err == nil && len(list) > 0; list = list[fields:] {
		if len(list) < fields {
			return nil, nil, fmt.Errorf("lock: reply ends in %d elements of a holder, want %d", len(list), fields)
		}
		var of [fields - 1]int64
		if err := (redoubt.Reply{Val: list[:len(of)]}).Ints(of[:]); err != nil {
			return nil, nil, err
		}
		label, err := redoubt.Reply{Val: list[len(of)]}.Text()
		if err != nil {
			return nil, nil, err
		}
		holders = append(holders, Holder{
			Token: of[0], TTL: time.Duration(of[1]) * time.Microsecond, Since: time.UnixMicro(of[2]), Label: label,
		})
	}
	return ints, holders, err
}
