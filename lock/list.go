package lock

import (
	"context"
	"iter"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/pages"
	"github.com/redoubt-go/redoubt/internal/wire/listing"
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
	return locks(ctx, m.client, match)
}

// List goes over the locks that are held or waited for, and whose names match: see
// [Mutex.List].
func (rw *RWMutex) List(ctx context.Context, match string) iter.Seq2[Listed[Info], error] {
	return locks(ctx, rw.client, match)
}

// List goes over the semaphores of which a permit is taken or waited for, and
// whose names match: see [Mutex.List].
func (s *Semaphore) List(ctx context.Context, match string) iter.Seq2[Listed[SemaphoreInfo], error] {
	return pages.All(func(cursor string) ([]Listed[SemaphoreInfo], string, error) {
		found, next, err := wire.SemaphorePage(ctx, s.client, match, cursor)
		return converted(found, semaphoreInfo), next, err
	})
}

func locks(ctx context.Context, client *redoubt.Client, match string) iter.Seq2[Listed[Info], error] {
	return pages.All(func(cursor string) ([]Listed[Info], string, error) {
		found, next, err := wire.Page(ctx, client, match, cursor)
		return converted(found, info), next, err
	})
}

// converted makes each W of the wire an I.
func converted[I Info | SemaphoreInfo, W wire.Info | wire.SemaphoreInfo](found []listing.Listed[W], of func(W) I) []Listed[I] {
	all := make([]Listed[I], len(found))
	for i, l := range found {
		all[i] = Listed[I]{l.Name, of(l.Info)}
	}
	return all
}
