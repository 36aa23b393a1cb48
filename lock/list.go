package lock

import (
	"context"
	"errors"
	"iter"

	"github.com/redoubt-go/redoubt"
)

// A Listed is a lock or a semaphore that a listing found.
type Listed[I Info | SemaphoreInfo] struct {
	Name string
	Info I
}

// List goes over the locks that are held or waited for, and whose names match: a
// pattern as of Redis' KEYS, where an empty one matches all. A loop over it ends
// with the first error.
//
// It is for people, not for programs that run all the time: it looks at every key
// of the server, or of all primaries of a cluster, though in steps that hold
// nobody up. Each step is a round trip for about 1,000 keys, and another where
// there are locks among them. Locks that are acquired or released meanwhile may be
// listed or not, and one may come twice: see [redoubt.Client.Names].
func (m *Mutex) List(ctx context.Context, match string) iter.Seq2[Listed[Info], error] {
	return list(ctx, m.client, match, Page)
}

// List goes over the locks that are held or waited for, and whose names match: see
// [Mutex.List].
func (rw *RWMutex) List(ctx context.Context, match string) iter.Seq2[Listed[Info], error] {
	return list(ctx, rw.client, match, Page)
}

// List goes over the semaphores of which a permit is taken or waited for, and
// whose names match: see [Mutex.List].
func (s *Semaphore) List(ctx context.Context, match string) iter.Seq2[Listed[SemaphoreInfo], error] {
	return list(ctx, s.client, match, SemaphorePage)
}

// Page is one step of [Mutex.List]: it begins with the cursor "0" and goes on with
// next, until that is "0" again. This is what LOCK.LS does.
func Page(ctx context.Context, client *redoubt.Client, match, cursor string) (locks []Listed[Info], next string, err error) {
	return page(ctx, client, match, cursor, lockPart, InfoCmd, ReadInfo, func(i Info) bool {
		return i.Mode != Free || i.Waiters > 0
	})
}

// SemaphorePage is one step of [Semaphore.List], as [Page] is of [Mutex.List].
func SemaphorePage(ctx context.Context, client *redoubt.Client, match, cursor string) (semaphores []Listed[SemaphoreInfo], next string, err error) {
	return page(ctx, client, match, cursor, semaphorePart, SemaphoreInfoCmd, ReadSemaphoreInfo, func(i SemaphoreInfo) bool {
		return i.Taken > 0 || i.Waiters > 0
	})
}

type pager[I Info | SemaphoreInfo] func(ctx context.Context, client *redoubt.Client, match, cursor string) ([]Listed[I], string, error)

func list[I Info | SemaphoreInfo](ctx context.Context, client *redoubt.Client, match string, page pager[I]) iter.Seq2[Listed[I], error] {
	return func(yield func(Listed[I], error) bool) {
		for cursor := ""; cursor != "0"; {
			found, next, err := page(ctx, client, match, cursor)
			if err != nil {
				yield(Listed[I]{}, err)
				return
			}
			for _, l := range found {
				if !yield(l, nil) {
					return
				}
			}
			cursor = next
		}
	}
}

// page finds names by a key that outlives what it stands for, and asks for the
// state of each.
func page[I Info | SemaphoreInfo](
	ctx context.Context, client *redoubt.Client, match, cursor, part string,
	ask func(*redoubt.Client, string) (redoubt.Cmd, error), read func(redoubt.Reply) (I, error), inUse func(I) bool,
) (found []Listed[I], next string, err error) {
	names, next, err := client.Names(ctx, part, "hash", match, cursor)
	if err != nil || len(names) == 0 {
		return nil, next, err
	}
	cmds := make([]redoubt.Cmd, 0, len(names))
	asked := names[:0]
	for _, name := range names {
		if cmd, err := ask(client, name); err == nil { // else another has made the key
			cmds, asked = append(cmds, cmd), append(asked, name)
		}
	}
	for i, reply := range client.Pipeline(ctx, cmds) {
		info, err := read(reply)
		switch {
		case errors.Is(err, redoubt.ErrWrongType): // another program made the key
		case err != nil:
			return nil, "", err
		case inUse(info):
			found = append(found, Listed[I]{asked[i], info})
		}
	}
	return found, next, nil
}
