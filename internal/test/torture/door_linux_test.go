package torture

import (
	"context"
	"errors"
	"time"

	"github.com/redoubt-go/redoubt/geo"
	wire "github.com/redoubt-go/redoubt/internal/wire/stock"
)

// The times of leases. They are short, so that rounds see many end, and long enough for a busy machine.
const (
	lockTTL    = time.Second
	stockTTL   = 400 * time.Millisecond
	queueLease = 2 * time.Second
	patience   = 1500 * time.Millisecond // of a waiter
)

// errNever marks an error of a call that had no effect.
var errNever = errors.New("it was not sent")

func never(err error) bool { return errors.Is(err, errNever) }

// A door is a way to the primitives: the library, or commands to `redoubt serve`. An error that is not
// errNever leaves open what became of the call.
type door interface {
	// acquire returns nil if others have the lock, or all permits of the semaphore. It waits if it may.
	acquire(ctx context.Context, primitive, name string, wait bool) (*holding, error)
	// holder returns the token of the lease that somebody has, 0 if nobody has one, and the number of
	// processes that wait.
	holder(ctx context.Context, name string) (token, waiters int64, err error)

	// write returns whether the token is large enough, and the largest if not.
	write(ctx context.Context, name string, token, value int64) (ok bool, largest int64, err error)
	read(ctx context.Context, name string) (int64, error)

	total(ctx context.Context, name string, n int64) (available int64, err error)
	reserve(ctx context.Context, name, id string, n int64) (wire.Status, error)
	commit(ctx context.Context, name, id string) (wire.Status, error)
	cancel(ctx context.Context, name, id string) (wire.Status, error)
	count(ctx context.Context, name string) (available, sold int64, err error)

	ask(ctx context.Context, name string) (bool, error)

	put(ctx context.Context, name, id string) error
	// consume takes and settles messages until ctx ends.
	consume(ctx context.Context, w *worker, name string)

	// visit returns once the visit counts. visitors returns the numbers of visitors and views, -1 if it can't tell.
	visit(ctx context.Context, page, visitor string) error
	visitors(ctx context.Context, page string) (visitors, views int64, err error)

	// position places, moves or removes a member of an index. ok says what the events of these do.
	position(ctx context.Context, what, index, member string, to geo.Point) (ok bool, err error)
	// near returns the members in an area.
	near(ctx context.Context, index string, a area) (sighting, error)

	// add adds a number to a set of a kind, and has reads whether it is there.
	add(ctx context.Context, kind, name string, n int64) error
	has(ctx context.Context, kind, name string, n int64) (bool, error)
	kinds() []string

	// resends reports whether the door repeats calls whose reply was lost. Then a late copy of a call may
	// have its effect after the answer.
	resends() bool
	close()
}

// The kinds of sets.
const aField, aBit, anItem, anElement = "field", "bit", "item", "element"

// A holding is a lease that a worker has.
type holding struct {
	token    int64
	deadline func() time.Time // until which it is relied on
	done     <-chan struct{}  // closed when it is over; nil where nobody tells
	extend   func(ctx context.Context) error
	release  func(ctx context.Context) error // nil: it is over now, whatever ended it
}

// until returns the deadline by the clock of events.
func (h *holding) until() int64 { return now() + int64(time.Until(h.deadline())) }
