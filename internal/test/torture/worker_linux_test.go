package torture

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	mathrand "math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	wire "github.com/redoubt-go/redoubt/internal/wire/stock"
)

// The doors of workers.
const byLibrary, byWire, byCommand = "library", "wire", "command line"

// orders are what a worker, a process of its own, is to do.
type orders struct {
	Worker  int
	Door    string
	URL     string   // of the library and of the command line; of the wire the address
	Masters []string // independent servers, for the library; none in most topologies
	Binary  string   // redoubt
	Renew   bool
	Tag     string // begins all names
	Seed    uint64
	Began   int64  // the beginning of the round, by the clock of events
	Dir     string // of the sources of caches
}

// ordersEnv has the orders of a worker.
const ordersEnv = "TORTURE_WORKER"

// The parts of primitives that a goroutine of their own drives: one half of queues and one of caches.
const (
	puts        = "put"
	localLevels = "local level"
)

// recoverWithin is how long a primitive may take to work again once all faults are over. It takes
// seconds; the machine may be busy.
const recoverWithin = 2 * time.Minute

// A worker drives all primitives through one door.
type worker struct {
	orders
	pen      *pen
	finished atomic.Bool // the faults are over
	quit     context.CancelFunc

	mu   sync.Mutex
	left []string          // primitives that have not worked since the faults are over
	last map[string]string // the last error of each
}

// epoch is for how long one name is used: so a history of a name stays short enough to judge.
const epoch = 1500 * time.Millisecond

// work is the worker's process.
func work(text string) error {
	w := &worker{last: map[string]string{}}
	if err := json.Unmarshal([]byte(text), &w.orders); err != nil {
		return err
	}
	w.pen = &pen{worker: w.Worker, out: os.Stdout}
	ctx, quit := context.WithCancel(context.Background())
	w.quit = quit
	var drive map[string]func(context.Context)
	if w.Door == byCommand {
		c := &commandLine{w}
		drive = map[string]func(context.Context){locks: c.lock, limits: c.limit, queues: c.queue}
	} else {
		d, err := w.open(ctx)
		if err != nil {
			return err
		}
		defer d.close()
		drive = map[string]func(context.Context){
			locks:      func(ctx context.Context) { w.lock(ctx, d, locks) },
			semaphores: func(ctx context.Context) { w.lock(ctx, d, semaphores) },
			fair:       func(ctx context.Context) { w.fair(ctx, d) },
			stocks:     func(ctx context.Context) { w.stock(ctx, d) },
			limits:     func(ctx context.Context) { w.limit(ctx, d) },
			puts:       func(ctx context.Context) { w.produce(ctx, d) },
			queues:     func(ctx context.Context) { d.consume(ctx, w, w.queueName()) },
			sets:       func(ctx context.Context) { w.add(ctx, d) },
			visits:     func(ctx context.Context) { w.visit(ctx, d) },
			positions:  func(ctx context.Context) { w.position(ctx, d) },
		}
		if l, ok := d.(*library); ok {
			drive[caches] = func(ctx context.Context) { l.cache(ctx, w) }
			drive[localLevels] = func(ctx context.Context) { l.readLocal(ctx, w) }
			if len(w.Masters) > 0 {
				drive[quorums] = func(ctx context.Context) { w.lock(ctx, d, quorums) }
			}
		}
	}
	w.left = slices.Sorted(maps.Keys(drive))
	var all sync.WaitGroup
	for _, f := range drive {
		all.Go(func() {
			for ctx.Err() == nil {
				f(ctx)
			}
		})
	}
	// Standard input has a line when the faults are over, and ends with the parent.
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
		quit()
	}
	w.finished.Store(true)
	select {
	case <-ctx.Done():
	case <-time.After(recoverWithin):
		w.mu.Lock()
		defer w.mu.Unlock()
		return fmt.Errorf("the %s does not work within %v after the faults: %v; last errors: %v", w.Door, recoverWithin, w.left, w.last)
	}
	all.Wait()
	return nil
}

// open opens the door, as soon as the servers let it.
func (w *worker) open(ctx context.Context) (door, error) {
	if w.Door == byWire {
		return &line{addr: w.URL}, nil
	}
	var last error
	for end := time.Now().Add(recoverWithin); time.Now().Before(end); w.rest(ctx, 50*time.Millisecond) {
		l, err := openLibrary(ctx, w.URL, w.Renew, w.Masters...)
		if err == nil {
			return l, nil
		}
		last = err
	}
	return nil, last
}

// random returns the choices of a primitive.
func (w *worker) random(primitive string) *mathrand.Rand {
	h := fnv.New64a()
	_, _ = fmt.Fprint(h, primitive, w.Worker) // A Hash never fails.
	return mathrand.New(mathrand.NewPCG(w.Seed, h.Sum64()))
}

// worked notes that a primitive works. Once the faults are over, all have to, and then the worker ends.
func (w *worker) worked(primitive string) {
	if !w.finished.Load() {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.left = slices.DeleteFunc(w.left, func(p string) bool { return p == primitive })
	if len(w.left) == 0 {
		w.quit()
	}
}

// failed notes an error, and waits a little.
func (w *worker) failed(ctx context.Context, primitive string, err error) {
	w.mu.Lock()
	w.last[primitive] = strings.ReplaceAll(err.Error(), "\n", "; ")
	w.mu.Unlock()
	w.rest(ctx, 30*time.Millisecond)
}

func (w *worker) rest(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// pause rests for up to d.
func (w *worker) pause(ctx context.Context, rng *mathrand.Rand, d time.Duration) {
	w.rest(ctx, time.Duration(rng.Int64N(int64(d))))
}

// name returns one of two names of a primitive, which change from epoch to epoch.
func (w *worker) name(rng *mathrand.Rand, primitive string) string {
	return fmt.Sprintf("%s-%s%d-%d", w.Tag, primitive, rng.IntN(2), (now()-w.Began)/int64(epoch))
}

func (w *worker) queueName() string { return w.Tag + "-queue" }

func newID() string {
	b := make([]byte, 8)
	_, _ = rand.Read(b) // It never fails.
	return hex.EncodeToString(b)
}

// callWithin bounds a call: longer than clients wait for a server that is down.
const callWithin = 4 * time.Second

func within(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, callWithin)
}

// lock acquires a lock or a permit, and releases it. It writes to the register that a lock protects.
func (w *worker) lock(ctx context.Context, d door, primitive string) {
	rng := w.random(primitive)
	values := int64(0)
	write := func(ctx context.Context, name string, token int64) {
		if primitive != locks {
			return
		}
		ctx, cancel := within(ctx)
		defer cancel()
		values++
		e := w.pen.begin(event{Primitive: register, Name: name, What: wrote, N: token, M: int64(w.Worker)<<32 + values})
		var err error
		e.OK, e.Answer, err = d.write(ctx, name, token, e.M)
		w.pen.end(e, err)
	}
	var late []event // leases that are over, whose holder goes on writing
	for ctx.Err() == nil {
		name := w.name(rng, primitive)
		if n := len(late); n > 0 && rng.IntN(3) == 0 {
			write(ctx, late[n-1].Name, late[n-1].N)
			late = late[:n-1]
		}
		if primitive == locks && rng.IntN(5) == 0 {
			w.look(ctx, d, name)
		}
		call := now()
		h, err := d.acquire(ctx, primitive, name, rng.IntN(3) > 0)
		if err != nil {
			w.failed(ctx, primitive, err)
			continue
		}
		if h == nil { // Others have it.
			w.worked(primitive)
			w.pause(ctx, rng, 60*time.Millisecond)
			continue
		}
		e := event{Primitive: primitive, Name: name, What: acquired, N: h.token, Call: call, Return: now(), Until: h.until()}
		w.pen.note(e)
		for rng.IntN(3) == 0 && ctx.Err() == nil {
			w.wait(ctx, rng, h)
			within, cancel := within(ctx)
			call := now()
			if h.extend(within) == nil {
				w.pen.note(event{Primitive: primitive, Name: name, What: extended, N: h.token, Call: call, Return: now(), Until: h.until()})
			}
			cancel()
		}
		for rng.IntN(2) == 0 {
			write(ctx, name, h.token)
		}
		w.wait(ctx, rng, h)
		if rng.IntN(4) == 0 {
			late = append(late, e)
		}
		over := w.pen.begin(event{Primitive: primitive, Name: name, What: ended, N: h.token, Call: min(now(), h.until())})
		if !w.Renew && rng.IntN(12) == 0 { // leaves it to the end of its lease
			over.Call = h.until()
			w.pen.end(over, errNever)
			continue
		}
		within, cancel := within(context.WithoutCancel(ctx))
		err = h.release(within)
		cancel()
		w.pen.end(over, err)
		if err == nil {
			w.worked(primitive)
		} else {
			w.failed(ctx, primitive, err)
		}
	}
}

// look reads who has a lock, and its register.
func (w *worker) look(ctx context.Context, d door, name string) {
	ctx, cancel := within(ctx)
	defer cancel()
	call := now()
	if token, _, err := d.holder(ctx, name); err == nil {
		w.pen.note(event{Primitive: locks, Name: name, What: held, N: token, Call: call, Return: now()})
	}
	call = now()
	if value, err := d.read(ctx, name); err == nil {
		w.pen.note(event{Primitive: register, Name: name, What: is, Answer: value, Call: call, Return: now()})
	}
}

// add adds numbers to sets.
func (w *worker) add(ctx context.Context, d door) {
	rng := w.random(sets)
	for n := int64(1); ctx.Err() == nil; n++ {
		kinds := d.kinds()
		e := event{Primitive: sets, What: added, ID: kinds[rng.IntN(len(kinds))], N: n}
		e.Name = fmt.Sprintf("%s-%s-%d", w.Tag, e.ID, w.Worker)
		if !d.resends() {
			e.M = 1
		}
		within, cancel := within(ctx)
		e = w.pen.begin(e)
		err := d.add(within, e.ID, e.Name, n)
		cancel()
		w.pen.end(e, err)
		if err == nil {
			w.worked(sets)
		} else {
			w.failed(ctx, sets, err)
		}
		w.pause(ctx, rng, 80*time.Millisecond)
	}
}

// wait holds a lease for a while, now and then for longer than it lasts.
func (w *worker) wait(ctx context.Context, rng *mathrand.Rand, h *holding) {
	while := time.Duration(rng.Int64N(int64(20 * time.Millisecond)))
	if rng.IntN(25) == 0 {
		while = lockTTL
	}
	select {
	case <-ctx.Done():
	case <-h.done:
	case <-time.After(while):
	}
}

// stockUnits is the total of an item: few enough that it is sold out now and then.
const stockUnits = 24

// stock reserves, commits and cancels.
func (w *worker) stock(ctx context.Context, d door) {
	rng := w.random(stocks)
	type reservation struct{ name, id string }
	var mine []reservation
	made := map[string]int{} // by name: a history has room for so many
	call := func(e event, f func(ctx context.Context, e *event) error) bool {
		ctx, cancel := within(ctx)
		defer cancel()
		e.Primitive = stocks
		e = w.pen.begin(e)
		err := f(ctx, &e)
		w.pen.end(e, err)
		if err != nil {
			w.failed(ctx, stocks, err)
		}
		return err == nil
	}
	// settle ends a reservation, and repeats the call until it is answered: the fewer outcomes are unknown,
	// the sooner a history is judged.
	settle := func(r reservation, what string, f func(ctx context.Context, name, id string) (wire.Status, error)) {
		for tries := 0; tries < 5 && ctx.Err() == nil; tries++ {
			if call(event{Name: r.name, What: what, ID: r.id}, func(ctx context.Context, e *event) error {
				status, err := f(ctx, r.name, r.id)
				e.Answer = int64(status)
				return err
			}) {
				return
			}
		}
	}
	for ctx.Err() == nil {
		name := w.name(rng, stocks)
		if made[name] == 0 {
			made[name] = 1
			call(event{Name: name, What: set, N: stockUnits}, func(ctx context.Context, e *event) (err error) {
				e.Answer, err = d.total(ctx, name, stockUnits)
				return err
			})
		}
		switch way := rng.IntN(10); {
		case way < 4 && made[name] <= maxIDs/10:
			made[name]++
			id := newID()
			if call(event{Name: name, What: reserved, ID: id, N: 1 + rng.Int64N(3), Until: int64(stockTTL)}, func(ctx context.Context, e *event) error {
				status, err := d.reserve(ctx, name, id, e.N)
				e.Answer = int64(status)
				if err == nil && status == wire.None && d.resends() {
					return errLateCopy
				}
				return err
			}) {
				mine = append(mine, reservation{name, id})
			} else {
				settle(reservation{name, id}, cancelled, d.cancel)
			}
		case way < 8 && len(mine) > 0:
			i := rng.IntN(len(mine))
			r := mine[i]
			if rng.IntN(4) > 0 { // else it is settled again
				mine = slices.Delete(mine, i, i+1)
			}
			if rng.IntN(2) == 0 {
				settle(r, committed, d.commit)
			} else {
				settle(r, cancelled, d.cancel)
			}
		default:
			if call(event{Name: name, What: counted}, func(ctx context.Context, e *event) (err error) {
				e.N, e.M, err = d.count(ctx, name)
				return err
			}) {
				w.worked(stocks)
			}
		}
		w.pause(ctx, rng, 50*time.Millisecond)
	}
}

// errLateCopy: the library may have sent a reserve twice. If the second found too few units, the first
// may still be on its way, and find some.
var errLateCopy = errors.New("a late copy of the call may take units")

// limit asks for tokens.
func (w *worker) limit(ctx context.Context, d door) {
	rng := w.random(limits)
	for ctx.Err() == nil {
		within, cancel := within(ctx)
		e := w.pen.begin(event{Primitive: limits, Name: w.name(rng, limits), What: asked})
		var err error
		e.OK, err = d.ask(within, e.Name)
		cancel()
		w.pen.end(e, err)
		if err == nil {
			w.worked(limits)
		} else {
			w.failed(ctx, limits, err)
		}
		w.pause(ctx, rng, 60*time.Millisecond)
	}
}

// produce puts messages.
func (w *worker) produce(ctx context.Context, d door) {
	rng := w.random(puts)
	for n := 1; ctx.Err() == nil; n++ {
		within, cancel := within(ctx)
		e := event{Primitive: queues, Name: w.queueName(), What: put, ID: fmt.Sprintf("%d-%d", w.Worker, n)}
		if !d.resends() {
			e.M = 1
		}
		e = w.pen.begin(e)
		err := d.put(within, e.Name, e.ID)
		cancel()
		w.pen.end(e, err)
		if err != nil {
			w.failed(ctx, puts, err)
		} else {
			w.worked(puts)
		}
		w.pause(ctx, rng, 80*time.Millisecond)
	}
}
