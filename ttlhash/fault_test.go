package ttlhash_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/test/await"
	"github.com/redoubt-go/redoubt/internal/test/faults"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
	"github.com/redoubt-go/redoubt/internal/test/testenv"
	"github.com/redoubt-go/redoubt/ttlhash"
)

// The server is killed and started again while fields are set, prolonged, taken and
// expire. An acknowledged field is there until its deadline and not after it, any other
// is there as a whole or not at all, and at the end nothing is left.
//
// HISTORY=10m go test -run TestKilledServer -timeout 1h ./ttlhash runs it for ten minutes
// on each server instead of a second.
//
// Promise: A call that failed has had its whole effect or none, also when a server that keeps
// what it acknowledged was killed.
func TestKilledServer(t *testing.T) {
	t.Parallel()
	at := slices.IndexFunc(faults.All, func(f faults.Fault) bool { return f.Name == "kill -9 and restart" })
	fault := faults.All[at]
	for _, kind := range []faults.Kind{faults.Redis, faults.Engine} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			d := faults.Start(t, kind)
			wanted := []string{"kept", "over", "over meanwhile", "unknown"}
			d.Rounds(t, fault, wanted, func(t *testing.T, round uint64, total map[string]int) {
				killedRound(t, d, fault, round, total)
			})
		})
	}
}

func killedRound(t *testing.T, d *faults.Deployment, fault faults.Fault, round uint64, total map[string]int) {
	t.Helper()
	e := &env{Env: testenv.On(t, redistest.Backend{Prefix: fmt.Sprint("r", round)}, d.Direct()), native: true}
	e.Conn = d.Conn(t, d.Direct(), fault)
	rng := rand.New(rand.NewPCG(round, 1))
	ctx, cancel := context.WithTimeout(t.Context(), fault.Round(d))
	defer cancel()
	names := []string{"as it is", "emulated"}
	var users []*user
	var wg sync.WaitGroup
	for i := range 6 {
		u := &user{
			t: t, rng: rand.New(rand.NewPCG(rng.Uint64(), 1)), counts: map[string]int{},
			hashes: e.with(ttlhash.Options{Emulate: i%2 == 1}), name: names[i%2],
		}
		for f := range 4 {
			u.fields = append(u.fields, &userField{name: fmt.Sprint(i, "-", f), may: []state{{}}})
		}
		users = append(users, u)
		wg.Go(func() {
			for ctx.Err() == nil && !t.Failed() {
				u.step()
			}
		})
	}
	fault.Strike(ctx, t, &faults.Site{Deployment: d, Prefix: e.Prefix, Tags: names}, rng)
	wg.Wait()
	for _, u := range users {
		for _, f := range u.fields {
			u.read(f)
			u.end(f)
		}
		for what, n := range u.counts {
			total[what] += n
		}
	}
	await.Until(t, time.Minute, "nothing is left", func() bool { return len(e.left(names[0]))+len(e.left(names[1])) == 0 })
}

// A user is a process with fields of its own, in a hash with other users' fields.
type user struct {
	t       *testing.T
	rng     *rand.Rand
	hashes  *ttlhash.Hashes
	name    string
	fields  []*userField
	values  int
	crashes int           // calls that failed
	lag     time.Duration // so much Get may have been late at synced, by the quickest of the calls that told the time
	synced  time.Time
	counts  map[string]int
}

type userField struct {
	name string
	may  []state // what it may be
	age  int     // how many calls had failed when that was acknowledged
}

// A state is a value that is there until least, and from most on is not; the zero state
// is that of a field that is not there.
type state struct {
	value       string
	least, most time.Time
}

// skew is by how much the server's time, which it may keep for a whole command, may
// differ from ours: it is the same clock.
const skew = 5 * time.Millisecond

func (u *user) step() {
	f := u.fields[u.rng.IntN(len(u.fields))]
	ttl := time.Duration(20+u.rng.IntN(400)) * time.Millisecond
	if u.rng.IntN(2) == 0 {
		ttl = time.Hour
	}
	switch u.rng.IntN(8) {
	case 0, 1:
		u.values++
		value := fmt.Sprint(u.values)
		call, ret, ok := u.call(func(ctx context.Context) error { return u.hashes.Set(ctx, u.name, f.name, value, ttl) })
		set := state{value, call.Add(ttl), ret.Add(ttl + time.Millisecond)}
		if !ok {
			f.may = append(f.may, set)
			break
		}
		u.told(call, ret)
		f.may, f.age = []state{set}, u.crashes
	case 2:
		var value string
		var there bool
		call, ret, ok := u.call(func(ctx context.Context) (err error) {
			value, there, err = u.hashes.Touch(ctx, u.name, f.name, ttl)
			return err
		})
		if ok {
			u.saw(f, value, there, call, ret, skew)
		}
		for _, s := range f.may {
			if s.value == "" {
				continue
			}
			touched := state{s.value, call.Add(ttl), ret.Add(ttl + time.Millisecond)}
			if ok {
				f.may, f.age = []state{touched}, u.crashes
				break
			}
			f.may = append(f.may, touched)
		}
	case 3:
		u.end(f)
	case 4:
		u.call(func(ctx context.Context) error { _, err := u.hashes.Sweep(ctx, u.name); return err })
	default:
		u.read(f)
	}
}

// told notes a call whose reply told the server's time. It was that at some moment between
// the two, so what is known of it is late by the whole call at the most; and later calls
// only add to what is known.
func (u *user) told(call, ret time.Time) {
	if lag := ret.Sub(call); u.synced.IsZero() || lag < u.lag {
		u.lag, u.synced = lag, ret
	}
}

// late is by how much Get may be late now. Clocks may go apart by a thousandth.
func (u *user) late() time.Duration {
	if u.synced.IsZero() {
		return time.Hour
	}
	return skew + u.lag + time.Since(u.synced)/1000
}

// read reads a field, by Get or by the server's clock, until it gets an answer.
func (u *user) read(f *userField) {
	byServer := u.rng.IntN(2) == 0
	u.untilAnswered(func() bool {
		var value string
		var there bool
		late := u.late()
		call, ret, ok := u.call(func(ctx context.Context) (err error) {
			if value, there, err = u.hashes.Get(ctx, u.name, f.name); err == nil && there && byServer {
				_, there, err = u.hashes.TTL(ctx, u.name, f.name)
			}
			return err
		})
		if byServer && there {
			late = skew
		}
		if ok {
			u.saw(f, value, there, call, ret, late)
		}
		return ok
	})
}

// end takes a field, until it gets an answer.
func (u *user) end(f *userField) {
	u.untilAnswered(func() bool {
		var value string
		var there bool
		call, ret, ok := u.call(func(ctx context.Context) (err error) {
			value, there, err = u.hashes.Take(ctx, u.name, f.name)
			return err
		})
		if ok {
			u.saw(f, value, there, call, ret, skew)
			f.may, f.age = []state{{}}, u.crashes
		} else {
			f.may = append(f.may, state{})
		}
		return ok
	})
}

func (u *user) untilAnswered(call func() bool) {
	u.t.Helper()
	for pace := time.Tick(time.Millisecond); !call() && !u.t.Failed(); <-pace {
	}
}

// call makes a call. It is not ok when nobody knows what came of it.
func (u *user) call(f func(ctx context.Context) error) (call, ret time.Time, ok bool) {
	call = time.Now()
	err := f(u.t.Context())
	ret = time.Now()
	if err == nil {
		return call, ret, true
	}
	if refused, is := errors.AsType[redoubt.ServerError](err); is && refused.Code() != "LOADING" {
		u.t.Error(err)
	}
	u.crashes++
	return call, ret, false
}

// saw compares what was found between two times with what may be.
func (u *user) saw(f *userField, value string, there bool, call, ret time.Time, late time.Duration) {
	u.t.Helper()
	var may []state
	for _, s := range f.may {
		if there && s.value == value && call.Before(s.most.Add(late)) || !there && !ret.Before(s.least.Add(-skew)) {
			may = append(may, s)
		}
	}
	if len(may) == 0 {
		u.t.Errorf("%s of %s is %q (%v) between %v and %v; it may be %v", f.name, u.name, value, there, call, ret, f.may)
		return
	}
	switch was := f.may[0]; {
	case len(f.may) > 1:
		u.counts["unknown"]++
	case there && f.age < u.crashes:
		u.counts["kept"]++
	case !there && was.value != "" && f.age < u.crashes:
		u.counts["over meanwhile"]++
	case !there && was.value != "":
		u.counts["over"]++
	}
	if !there {
		may = []state{{}}
	}
	f.may = may
}
