package lock

import (
	"context"
	"iter"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/pages"
	"github.com/redoubt-go/redoubt/internal/wire/listing"
	wire "github.com/redoubt-go/redoubt/internal/wire/lock"
)

// List iterates over the locks that are held or waited for and whose names match a
// pattern, as in Redis' KEYS; an empty pattern matches all. The loop ends with the
// first error.
//
// Use it for people and tools, not in a loop that runs all the time: it scans every
// key of the server, or of all primaries of a cluster, in steps that delay nobody.
// Each step costs one round trip for about 1,000 keys, and another one when there
// are locks among them. A lock that is acquired or released meanwhile may be listed
// or not, and a lock may be listed twice: see [redoubt.Client.NamesPage].
func (m *Mutex) List(ctx context.Context, match string) iter.Seq2[Info, error] {
	return locks(ctx, m.client, match)
}

// List iterates over the locks that are held or waited for and whose names match:
// see [Mutex.List].
func (rw *RWMutex) List(ctx context.Context, match string) iter.Seq2[Info, error] {
	return locks(ctx, rw.client, match)
}

// List iterates over the semaphores whose permits are held or waited for and whose
// names match: see [Mutex.List].
func (s *Semaphore) List(ctx context.Context, match string) iter.Seq2[SemaphoreInfo, error] {
	return pages.All(func(cursor string) ([]SemaphoreInfo, string, error) {
		found, next, err := wire.SemaphorePage(ctx, s.client, match, cursor)
		return converted(found, semaphoreInfo), next, err
	})
}

func locks(ctx context.Context, client *redoubt.Client, match string) iter.Seq2[Info, error] {
	return pages.All(func(cursor string) ([]Info, string, error) {
		found, next, err := wire.Page(ctx, client, match, cursor)
		return converted(found, info), next, err
	})
}

// converted makes each W of the wire an I.
func converted[I Info | SemaphoreInfo, W wire.Info | wire.SemaphoreInfo](found []listing.Listed[W], of func(name string, w W) I) []I {
	all := make([]I, len(found))
	for i, l := range found {
		all[i] = of(l.Name, l.Info)
	}
	return all
}
