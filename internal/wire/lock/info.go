package lock

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/wire/listing"
)

// MaxHolders is the largest number of holders in a reply.
const MaxHolders = 100

// Holder is a holder of a lock or of a permit.
type Holder struct {
	Token int64
	Since time.Time // by the server's clock
	TTL   time.Duration
	Label string
}

// Info is the state of a lock.
type Info struct {
	Mode    int64 // 0 free, 1 exclusive, 2 shared
	Count   int64 // of the holders
	Token   int64 // of the holder, or of the last writer
	Waiters int64
	Holders []Holder // by the ends of their leases
}

// InfoCmd asks for the state of the lock with the keys of [RWKeys].
func InfoCmd(keys []string) redoubt.Cmd { return infoCmd(rwInfoScript, keys) }

// ReadInfo reads the reply to [InfoCmd].
func ReadInfo(r redoubt.Reply) (Info, error) {
	n, holders, err := intsAndHolders(r, 4)
	if err != nil {
		return Info{}, err
	}
	return Info{Mode: n[0], Count: n[1], Token: n[2], Waiters: n[3], Holders: holders}, nil
}

// SemaphoreInfo is the state of a semaphore.
type SemaphoreInfo struct {
	Taken   int64 // permits that are held
	Token   int64 // the last one
	Waiters int64
	Holders []Holder // by the ends of their permits
}

// SemaphoreInfoCmd asks for the state of a semaphore.
func SemaphoreInfoCmd(keys []string) redoubt.Cmd { return infoCmd(semInfoScript, keys) }

// ReadSemaphoreInfo reads the reply to [SemaphoreInfoCmd].
func ReadSemaphoreInfo(r redoubt.Reply) (SemaphoreInfo, error) {
	n, holders, err := intsAndHolders(r, 3)
	if err != nil {
		return SemaphoreInfo{}, err
	}
	return SemaphoreInfo{Taken: n[0], Token: n[1], Waiters: n[2], Holders: holders}, nil
}

func infoCmd(script *redoubt.Script, keys []string) redoubt.Cmd {
	return redoubt.Cmd{Script: script, Keys: keys, Args: []string{strconv.Itoa(MaxHolders)}, Flags: redoubt.ReadOnly}
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

// Page lists the locks that are held or waited for, on one page of [redoubt.Client.NamesPage].
func Page(ctx context.Context, client *redoubt.Client, match, cursor string) (locks []listing.Listed[Info], next string, err error) {
	return listing.Page(ctx, client, lockPart, match, cursor,
		func(name string) (redoubt.Cmd, error) {
			keys, err := RWKeys(client, name)
			return InfoCmd(keys), err
		},
		func(r redoubt.Reply) (Info, bool, error) {
			i, err := ReadInfo(r)
			return i, i.Mode != 0 || i.Waiters > 0, err
		})
}

// SemaphorePage lists semaphores as [Page] lists locks.
func SemaphorePage(ctx context.Context, client *redoubt.Client, match, cursor string) (semaphores []listing.Listed[SemaphoreInfo], next string, err error) {
	return listing.Page(ctx, client, semaphorePart, match, cursor,
		func(name string) (redoubt.Cmd, error) {
			keys, err := SemaphoreKeys(client, name)
			return SemaphoreInfoCmd(keys), err
		},
		func(r redoubt.Reply) (SemaphoreInfo, bool, error) {
			i, err := ReadSemaphoreInfo(r)
			return i, i.Taken > 0 || i.Waiters > 0, err
		})
}
