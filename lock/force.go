package lock

import (
	"context"
	"fmt"

	"github.com/redoubt-go/redoubt"
	wire "github.com/redoubt-go/redoubt/internal/wire/lock"
)

// ForceRelease takes the lock called name away from the holder with the fencing token,
// as [Mutex.Info] shows it, and wakes one waiter. It reports false, and does nothing,
// when nobody holds the lock with that token any more: it never affects a later holder.
// Readers share a token, and all readers with it lose the lock.
//
// The holder learns of it at its next renewal: within a third of its TTL its lease ends,
// with an error that matches [ErrNotHeld]. Until then it goes on beside the next holder.
// So force a lock only when its holder has stopped, or when the protected resource
// checks the token: the next holder's token is larger.
//
// A repeated call gives the same answer until another lease is forced. One round trip.
func (m *Mutex) ForceRelease(ctx context.Context, name string, token int64) (released bool, err error) {
	return force(ctx, m.client, name, token)
}

// ForceRelease takes the lock called name away from the writer, or from all readers, with
// the fencing token: see [Mutex.ForceRelease]. Readers that came later have the same
// token if no writer was in between, and lose the lock too.
func (rw *RWMutex) ForceRelease(ctx context.Context, name string, token int64) (released bool, err error) {
	return force(ctx, rw.client, name, token)
}

func force(ctx context.Context, client *redoubt.Client, name string, token int64) (bool, error) {
	if err := checkToken(token); err != nil {
		return false, err
	}
	keys, err := wire.RWKeys(client, name)
	if err != nil {
		return false, err
	}
	return wire.ReadRelease(client.Do(ctx, wire.ForceCmd(keys, token)))
}

func checkToken(token int64) error {
	if token < 1 {
		return fmt.Errorf("lock: token is %d; want that of the holder", token)
	}
	return nil
}

// ForceRelease takes the permit with the fencing token away from its holder, as
// [Mutex.ForceRelease] does with a lock. It searches all permits of the semaphore: one
// round trip for each 500 of them, and one more. A repeated call reports false.
func (s *Semaphore) ForceRelease(ctx context.Context, name string, token int64) (released bool, err error) {
	if err := checkToken(token); err != nil {
		return false, err
	}
	keys, err := wire.SemaphoreKeys(s.client, name)
	if err != nil {
		return false, err
	}
	for cursor := "0"; ; {
		permit, next, err := wire.ReadPermitsPage(s.client.Do(ctx, wire.PermitsPageCmd(keys, cursor)), token)
		switch {
		case err != nil:
			return false, err
		case permit != "": // a token stays with its permit
			return wire.ReadRelease(s.client.Do(ctx, wire.PermitForceCmd(keys, permit)))
		case next == "0":
			return false, nil
		}
		cursor = next
	}
}
