package queue_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/test/await"
	"github.com/redoubt-go/redoubt/internal/test/doors"
	"github.com/redoubt-go/redoubt/internal/test/exampleserver"
	"github.com/redoubt-go/redoubt/internal/test/expect"
	"github.com/redoubt-go/redoubt/internal/test/faults"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
	"github.com/redoubt-go/redoubt/internal/test/testenv"
	wire "github.com/redoubt-go/redoubt/internal/wire/queue"
	"github.com/redoubt-go/redoubt/queue"
)

func TestMain(m *testing.M) {
	faults.Main()
	faults.WorkIfHired(workOrders.work)
	goleak.VerifyTestMain(doors.M{TestingM: exampleserver.M{M: m}})
}

// env is one back end with a client on it.
type env struct{ *testenv.Env }

// each runs a test on every back end, on its own clock.
func each(t *testing.T, run func(t *testing.T, e *env)) {
	testenv.EachInFull(t, func(t *testing.T, e *testenv.Env) { run(t, &env{e}) })
}

// everywhere is each, pools included in make test too.
func everywhere(t *testing.T, run func(t *testing.T, e *env)) {
	testenv.Each(t, func(t *testing.T, e *testenv.Env) { run(t, &env{e}) })
}

// eachFrozen runs a test on every back end, with a clock that the test sets.
func eachFrozen(t *testing.T, run func(t *testing.T, e *env)) {
	each(t, func(t *testing.T, e *env) {
		e.Freeze(wire.Scripts(), nil)
		e.Clock.Set(e.Clock.Now().Truncate(time.Millisecond)) // due times are whole ms
		run(t, e)
	})
}

func (e *env) key(name, part string) string {
	if part != "" {
		part = ":" + part
	}
	return e.Key(name, "queue"+part)
}

// ownServer starts a server for one test.
func ownServer(t *testing.T, args ...string) redistest.Backend {
	s := redistest.Start(t, args...)
	return redistest.Backend{Name: "redis", URL: s.URL(), Addr: s.Addr(), Prefix: "own", Server: s}
}

var must, eventually = expect.Must, await.Soon

// A line is a queue of a test, used by its commands.
type line struct {
	*env
	t    *testing.T
	keys wire.Keys
	name string
	take int
}

func (e *env) line(t *testing.T, name string) *line {
	t.Helper()
	keys, err := wire.KeysOf(e.Client, name)
	must(t, err)
	return &line{env: e, t: t, keys: keys, name: name}
}

func (l *line) do(cmd redoubt.Cmd) redoubt.Reply { return l.Client.Do(l.t.Context(), cmd) }

// put puts messages, whose attempts are 3 unless they say otherwise, and whose
// payload is their id.
func (l *line) put(messages ...wire.Message) []wire.PutResult {
	l.t.Helper()
	for i := range messages {
		if messages[i].Attempts == 0 {
			messages[i].Attempts = 3
		}
		if messages[i].Payload == nil {
			messages[i].Payload = []byte(messages[i].ID)
		}
	}
	cmd, err := wire.PutCmd(l.keys, messages)
	must(l.t, err)
	placed, err := wire.ReadPut(l.do(cmd), messages)
	must(l.t, err)
	return placed
}

func (l *line) ids(ids ...string) {
	l.t.Helper()
	messages := make([]wire.Message, len(ids))
	for i, id := range ids {
		messages[i].ID = id
	}
	l.put(messages...)
}

// pump runs p, with a lease of a minute and a take of its own unless it has others.
func (l *line) pump(p wire.Pump) wire.Pumped {
	l.t.Helper()
	if p.Lease == 0 {
		p.Lease = time.Minute
	}
	if p.Take == "" {
		l.take++
		p.Take = fmt.Sprintf("take%012d", l.take)
	}
	if p.Consumer == "" {
		p.Consumer = "c"
	}
	got, err := wire.ReadPump(l.do(wire.PumpCmd(l.keys, p)))
	must(l.t, err)
	for _, m := range got.Taken {
		if string(m.Payload) != m.ID {
			l.t.Errorf("the payload of %s is %q", m.ID, m.Payload)
		}
	}
	return got
}

// takes takes n messages, which must be those with these ids, and returns them.
func (l *line) takes(n int, ids ...string) map[string]string {
	l.t.Helper()
	receipts := map[string]string{}
	var got []string
	for _, m := range l.pump(wire.Pump{N: n}).Taken {
		got = append(got, m.ID)
		receipts[m.ID] = m.Receipt
	}
	if !slices.Equal(got, ids) {
		l.t.Fatalf("took %q, want %q", got, ids)
	}
	return receipts
}

// ack acknowledges messages that must be held.
func (l *line) ack(receipts ...string) {
	l.t.Helper()
	if p := l.pump(wire.Pump{Acks: receipts}); len(p.Refused) > 0 {
		l.t.Fatalf("refused: %v", p.Refused)
	}
}

func (l *line) fails(how wire.NackKind, delay time.Duration, receipt string) {
	l.t.Helper()
	if p := l.pump(wire.Pump{Nacks: []wire.Nack{{Receipt: receipt, Kind: how, Delay: delay, Reason: "why"}}}); len(p.Refused) > 0 {
		l.t.Fatalf("refused: %v", p.Refused)
	}
}

func (l *line) stats() wire.Stats {
	l.t.Helper()
	s, err := wire.ReadStats(l.do(wire.StatsCmd(l.keys)))
	must(l.t, err)
	return s
}

// counts are the numbers of [queue.Info].
type counts struct{ ready, due, running, waiting, dead int }

func (l *line) wants(want counts) {
	l.t.Helper()
	s := l.stats()
	if got := (counts{s.Ready, s.Due, s.Running, s.Waiting, s.Dead}); got != want {
		l.t.Fatalf("%+v, want %+v", got, want)
	}
	// While something can be taken, a consumer can hear of it.
	marked := l.Redis.Exists(l.t.Context(), l.key(l.name, "wake")).Val() == 1
	if want.ready > 0 && !marked && !s.Paused && s.Limits == (wire.Limits{}) {
		l.t.Fatal("nobody would be woken")
	}
}

// empty wants no key to be left, but the note of the last take.
func (l *line) empty() {
	l.t.Helper()
	l.pump(wire.Pump{N: 1})
	if left := l.Redis.Keys(l.t.Context(), l.key(l.name, "")+"*").Val(); len(left) > 0 {
		l.t.Fatalf("these keys are left: %q", left)
	}
}

func (l *line) cancel(which func(wire.Keys, ...string) redoubt.Cmd, ids ...string) []queue.State {
	l.t.Helper()
	was, err := wire.ReadCancel(l.do(which(l.keys, ids...)))
	must(l.t, err)
	return was
}
