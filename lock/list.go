package lock

import (
	"context"
	"iter"

	"github.com/redoubt-go/redoubt"
	wire "github.com/redoubt-go/redoubt/internal/wire/lock"
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
	return list(ctx, m.client, match, wire.Page, info)
}

// List goes over the locks that are held or waited for, and whose names match: see
// [Mutex.List].
func (rw *RWMutex) List(ctx context.Context, match string) iter.Seq2[Listed[Info], error] {
	return list(ctx, rw.client, match, wire.Page, info)
}

// List goes over the semaphores of which a permit is taken or waited for, and
// whose names match: see [Mutex.List].
func (s *Semaphore) List(ctx context.Context, match string) iter.Seq2[Listed[SemaphoreInfo], error] {
	return list(ctx, s.client, match, wire.SemaphorePage, semaphoreInfo)
}

// list goes over all pages, and makes each W of the wire an I.
func list[I Info | SemaphoreInfo, W wire.Info | wire.SemaphoreInfo](
	ctx context.Context, client *redoubt.Client, match string,
	page func(ctx context.Context, client *redoubt.Client, match, cursor string) ([]wire.Listed[W], string, error), of func(W) I,
) iter.Seq2[Listed[I], error] {
	return func(yield func(Listed[I], error) bool) {
		for cursor := ""; cursor != "0"; {
			found, next, err := page(ctx, client, match, cursor)
			if err != nil {
				yield(Listed[I]{}, err)
				return
			}
			for _, l := range found {
				if !yield(Listed[I]{l.Name, of(l.Info)}, nil) {
					return
				}
			}
			cursor = next
		}
	}
}
