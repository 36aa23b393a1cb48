package lock

import (
	"context"
	"fmt"
	"strconv"

	"github.com/redoubt-go/redoubt"
)

// ForceRelease takes the lock called name away from whoever holds it with the
// fencing token, as [Mutex.Info] shows it, and wakes one waiter. It
// reports false, and does nothing, when nobody holds it with that token any more:
// a later holder is never hit. Readers share a token, and all who read with it
// lose the lock.
//
// The holder learns of it when it renews next: after a third of its TTL at most
// its lease is over, with an error that matches [ErrNotHeld]. Until then it goes
// on beside the next holder. So force a lock only when its holder is known to have
// stopped, or when what it does checks the token: the next holder's is larger.
//
// Repeated, it gives the same answer until another is forced. One round trip.
func (m *Mutex) ForceRelease(ctx context.Context, name string, token int64) (released bool, err error) {
	return force(ctx, m.client, name, token)
}

// ForceRelease takes the lock called name away from the writer, or from all
// readers, who hold it with the fencing token: see [Mutex.ForceRelease].
// Readers that came later with the same token, since no writer was between, are
// hit too.
func (rw *RWMutex) ForceRelease(ctx context.Context, name string, token int64) (released bool, err error) {
	return force(ctx, rw.client, name, token)
}

func force(ctx context.Context, client *redoubt.Client, name string, token int64) (bool, error) {
	cmd, err := ForceCmd(client, name, token)
	if err != nil {
		return false, err
	}
	return ReadRelease(client.Do(ctx, cmd))
}

// ForceCmd takes the lock called name away from whoever holds it with the fencing
// token: see [Mutex.ForceRelease]. [ReadRelease] reads the reply.
func ForceCmd(client *redoubt.Client, name string, token int64) (redoubt.Cmd, error) {
	if err := CheckToken(token); err != nil {
		return redoubt.Cmd{}, err
	}
	keys, err := rwKeys(client, name)
	if err != nil {
		return redoubt.Cmd{}, err
	}
	return rwReleaseCmd(keys, strconv.FormatInt(token, 10), "", "3"), nil
}

// CheckToken returns an error for what can't be a fencing token.
func CheckToken(token int64) error {
	if token < 1 {
		return fmt.Errorf("lock: token is %d; want that of the holder", token)
	}
	return nil
}

// ForceRelease takes the permit with the fencing token away from its holder,
// as [Mutex.ForceRelease] does with a lock. It looks for the permit among all of
// the semaphore: one round trip for each 500 of them, and one more. Repeated, it
// finds nobody and reports false.
func (s *Semaphore) ForceRelease(ctx context.Context, name string, token int64) (released bool, err error) {
	if err := CheckToken(token); err != nil {
		return false, err
	}
	keys, err := semaphoreKeys(s.client, name)
	if err != nil {
		return false, err
	}
	permit, err := s.find(ctx, keys[0], strconv.FormatInt(token, 10))
	if err != nil || permit == "" {
		return false, err
	}
	return ReadRelease(s.client.Do(ctx, forcePermitCmd(keys, permit)))
}

func forcePermitCmd(keys []string, permit string) redoubt.Cmd {
	return redoubt.Cmd{
		Script: semReleaseScript,
		Keys:   keys,
		Args:   []string{permit, "", "2", "0"},
		Flags:  redoubt.Idempotent,
	}
}

// find returns which permit has token, or "". Once given, a token stays with its
// permit.
func (s *Semaphore) find(ctx context.Context, key, token string) (permit string, err error) {
	for cursor := "0"; ; {
		page, err := s.client.Do(ctx, redoubt.Cmd{
			Name:  "HSCAN",
			Keys:  []string{key},
			Args:  []string{cursor, "MATCH", member("*"), "COUNT", "500"},
			Flags: redoubt.ReadOnly,
		}).Array()
		if err != nil {
			return "", err
		}
		if len(page) != 2 {
			return "", fmt.Errorf("lock: reply of HSCAN has %d elements, want 2", len(page))
		}
		fields, err := redoubt.Reply{Val: page[1]}.Array()
		if err != nil {
			return "", err
		}
		for i := 0; i+1 < len(fields); i += 2 {
			if fields[i+1] == token {
				return redoubt.Reply{Val: fields[i]}.Text()
			}
		}
		if cursor, err = (redoubt.Reply{Val: page[0]}).Text(); err != nil || cursor == "0" {
			return "", err
		}
	}
}
