package dashboard

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/redoubt-go/redoubt"
	lockwire "github.com/redoubt-go/redoubt/internal/wire/lock"
	queuewire "github.com/redoubt-go/redoubt/internal/wire/queue"
	stockwire "github.com/redoubt-go/redoubt/internal/wire/stock"
)

const (
	// readingAge is how old a reading of a Watcher may be before it reads again.
	readingAge = 5 * time.Second
	// scanAfterRead is how long a Watcher scans on for names after its last Read.
	scanAfterRead = 2 * time.Minute
	// patience is how long Read waits for a reading.
	patience = time.Second
	// locksPerName is how many more locks than queues a Watcher reads: they are only summed up.
	locksPerName = 10
)

// A Watcher reads the state of names for metrics, as the dashboard does for people: a scan finds the names, and
// each reading asks for the state of a bounded number of them. It costs the back end nothing while nobody calls
// Read. Its methods may be called concurrently.
type Watcher struct {
	client *redoubt.Client
	takers func() map[string]int
	most   int
	names  *names
	want   chan struct{} // read now

	ctx    context.Context //nolint:containedctx // the life of the Watcher
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu      sync.Mutex
	runs    bool          // a goroutine scans and reads
	asked   time.Time     // by Read
	state   State         // the last
	read    time.Time     // when it was read
	reading chan struct{} // closed with the next reading
}

// A State is what a Watcher has read.
type State struct {
	// At is when it was read; zero: never.
	At time.Time
	// Scanned says that a whole scan for names has ended.
	Scanned bool
	// Names counts the names of each kind, in the words of a snapshot.
	Names map[string]int64
	// Queues, Stock and Caches are the first names in order of the alphabet.
	Queues []QueueState
	Stock  []StockState
	Caches []CacheState
	// Locks and Semaphores are sums over the first names.
	Locks, Semaphores LockState
}

// A QueueState is the state of a queue.
type QueueState struct {
	Name                                        string
	Ready, Due, Running, Waiting, Blocked, Dead int
	Oldest                                      time.Duration // of the ready messages
	Paused                                      bool
	Takers                                      int // clients that wait for messages here
}

// A StockState is the state of one item.
type StockState struct {
	Name                      string
	Available, Reserved, Sold int64
}

// A CacheState is what a scan has found of one cache.
type CacheState struct {
	Name    string
	Entries int64
}

// A LockState counts leases and waiters.
type LockState struct{ Held, Waiting int64 }

// NewWatcher returns a Watcher that reads at most most names of each kind. takers is that of [Source].
func NewWatcher(client *redoubt.Client, takers func() map[string]int, most int) *Watcher {
	w := &Watcher{client: client, takers: takers, most: most, names: newNames(client), want: make(chan struct{}, 1), reading: make(chan struct{})}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	return w
}

// Read returns a state that is a few seconds old at most, or what there is after a second.
func (w *Watcher) Read() State {
	w.mu.Lock()
	w.asked = time.Now()
	if time.Since(w.read) < readingAge || w.ctx.Err() != nil {
		defer w.mu.Unlock()
		return w.state
	}
	if !w.runs {
		w.runs = true
		w.wg.Go(w.run)
	}
	reading := w.reading
	w.mu.Unlock()
	select {
	case w.want <- struct{}{}:
	default:
	}
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case <-reading:
	case <-late.C:
	case <-w.ctx.Done():
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.state
}

// Close ends what Read has begun.
func (w *Watcher) Close() error {
	w.mu.Lock()
	w.cancel()
	w.mu.Unlock()
	w.wg.Wait()
	return nil
}

// run scans for names, a turn a second, and reads when somebody wants it.
func (w *Watcher) run() {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	w.scan()
	for {
		select {
		case <-w.ctx.Done():
			return
		case <-w.want:
			w.readNow()
		case <-tick.C:
			if w.idle() {
				return
			}
			w.scan()
		}
	}
}

// idle reports whether nobody has called Read for long. Then the goroutine ends.
func (w *Watcher) idle() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.runs = time.Since(w.asked) < scanAfterRead
	return !w.runs
}

func (w *Watcher) scan() {
	ctx, cancel := context.WithTimeout(w.ctx, answerTime)
	defer cancel()
	_ = w.names.advance(ctx) // the next turn tries again
}

func (w *Watcher) readNow() {
	ctx, cancel := context.WithTimeout(w.ctx, answerTime)
	defer cancel()
	st, err := w.stateNow(ctx)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.read = time.Now(); err == nil {
		w.state = st
	} else {
		w.state = State{} // old numbers would look like new ones
	}
	close(w.reading)
	w.reading = make(chan struct{})
}

func (w *Watcher) stateNow(ctx context.Context) (State, error) {
	st := State{At: time.Now()}
	scan, names := w.names.state()
	st.Scanned, st.Names = scan.Done, names
	takers := map[string]int{}
	if w.takers != nil {
		takers = w.takers()
	}
	err := w.each(ctx, kindQueue, w.most, func(name string, r []redoubt.Reply) {
		s, err := queuewire.ReadStats(r[0])
		if err != nil {
			return
		}
		q := QueueState{Name: name, Ready: s.Ready, Due: s.Due, Running: s.Running, Waiting: s.Waiting, Blocked: s.Blocked, Dead: s.Dead, Oldest: s.Oldest, Paused: s.Paused}
		if keys, err := queuewire.KeysOf(w.client, name); err == nil {
			q.Takers = takers[keys.Wake()]
		}
		st.Queues = append(st.Queues, q)
	})
	if err != nil {
		return st, err
	}
	if err := w.each(ctx, kindStock, w.most, func(name string, r []redoubt.Reply) {
		if c, err := stockwire.ReadCount(r[0]); err == nil {
			st.Stock = append(st.Stock, StockState{name, c.Available, c.Reserved, c.Sold})
		}
	}); err != nil {
		return st, err
	}
	if err := w.each(ctx, kindLock, w.most*locksPerName, func(_ string, r []redoubt.Reply) {
		if i, err := lockwire.ReadInfo(r[0]); err == nil {
			st.Locks.Held, st.Locks.Waiting = st.Locks.Held+i.Count, st.Locks.Waiting+i.Waiters
		}
	}); err != nil {
		return st, err
	}
	if err := w.each(ctx, kindSemaphore, w.most*locksPerName, func(_ string, r []redoubt.Reply) {
		if i, err := lockwire.ReadSemaphoreInfo(r[0]); err == nil {
			st.Semaphores.Held, st.Semaphores.Waiting = st.Semaphores.Held+i.Taken, st.Semaphores.Waiting+i.Waiters
		}
	}); err != nil {
		return st, err
	}
	caches, _ := w.names.after(kindCache, "", "", w.most)
	for _, name := range caches {
		st.Caches = append(st.Caches, CacheState{name, w.names.entries(kindCache, name)})
	}
	return st, nil
}

// each calls f with the replies about the first names of a kind, read in pipelines. It fails if no server answers;
// with several, the names of the others stay.
func (w *Watcher) each(ctx context.Context, k kind, most int, f func(name string, r []redoubt.Reply)) error {
	list, _ := w.names.after(k, "", "", most)
	for len(list) > 0 {
		page := list[:min(len(list), pageRows)]
		list = list[len(page):]
		var cmds []redoubt.Cmd
		var asked []string
		var ends []int
		for _, name := range page {
			if c, err := readers[k].cmds(w.client, name); err == nil {
				cmds, asked = append(cmds, c...), append(asked, name)
				ends = append(ends, len(cmds))
			}
		}
		replies, from := w.client.Pipeline(ctx, cmds), 0
		if len(replies) > 0 && !slices.ContainsFunc(replies, func(r redoubt.Reply) bool { return !isDown(r.Err) }) {
			return replies[0].Err
		}
		for i, name := range asked {
			f(name, replies[from:ends[i]])
			from = ends[i]
		}
	}
	return nil
}
