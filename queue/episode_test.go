package queue_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	wire "github.com/redoubt-go/redoubt/internal/wire/queue"
	"github.com/redoubt-go/redoubt/queue"
)

// An episode drives one queue and its model side by side.
type episode struct {
	*line
	*model

	rng      *rand.Rand
	ids      []string
	receipts []string // that were given, the last ones
	last     map[string]wire.Pump
	log      []string
	failed   bool
}

// For any calls in any order the scripts give the replies of the model, leave the queue in the
// state of the model, and leave no keys behind.
func TestScriptsFollowTheModel(t *testing.T) {
	seeds := uint64(6)
	if os.Getenv("QUEUE_FAULTS") == "full" {
		seeds = 300
	}
	for seed := range seeds {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			lines(t, func(t *testing.T, l *line) {
				e := &episode{line: l, model: newModel(l.Clock.Now()), rng: rand.New(rand.NewPCG(seed, 0)), last: map[string]wire.Pump{}}
				for i := range 4 + 8*(seed%2) {
					e.ids = append(e.ids, fmt.Sprint("id", i))
				}
				for range 250 {
					e.step()
					e.look()
					if e.failed {
						t.Fatalf("the last steps:\n%s", strings.Join(e.log[max(0, len(e.log)-12):], "\n"))
					}
				}
				e.end()
			})
		})
	}
}

func (e *episode) one(of ...string) string { return of[e.rng.IntN(len(of))] }

// some returns up to n of what there is, maybe one twice.
func (e *episode) some(n int, of []string) (some []string) {
	for range e.rng.IntN(n + 1) {
		if len(of) > 0 {
			some = append(some, e.one(of...))
		}
	}
	return some
}

func (e *episode) note(format string, args ...any) {
	e.log = append(e.log, fmt.Sprintf("%s ", e.Clock.Now().UTC().Format("15:04:05.000000"))+fmt.Sprintf(format, args...))
}

func (e *episode) same(what string, got, want any) {
	e.t.Helper()
	if !reflect.DeepEqual(got, want) {
		e.failed = true
		e.t.Errorf("%s:\n%+v, want\n%+v", what, got, want)
	}
}

// moment is a time that something takes: none, some ms, or longer than a lease.
func (e *episode) moment() time.Duration {
	return []time.Duration{0, time.Millisecond, 3 * time.Millisecond, time.Second, 5 * time.Minute}[e.rng.IntN(5)]
}

func (e *episode) step() {
	switch n := e.rng.IntN(100); {
	case n < 25:
		e.puts()
	case n < 62:
		e.pumps()
	case n < 75:
		d := time.Duration(e.rng.IntN(3))*time.Microsecond + e.moment()
		e.note("%v go by", d)
		e.Clock.Advance(d)
		e.µs += d.Microseconds()
	case n < 80:
		lease, receipts := time.Minute+e.moment(), append(e.some(3, e.receipts), "nonsense")
		e.note("extend %q by %v", receipts, lease)
		held, err := wire.ReadFlags(e.do(wire.ExtendCmd(e.keys, lease, receipts...)))
		must(e.t, err)
		e.same("held", held, e.extend(lease, receipts))
	case n < 86:
		dead, ids := e.rng.IntN(2) == 0, append(e.some(4, e.ids), "nobody")
		e.note("cancel %q, the dead: %v", ids, dead)
		cmd := wire.CancelCmd
		if dead {
			cmd = wire.DeleteCmd
		}
		e.same("what they were", e.line.cancel(cmd, ids...), e.model.cancel(dead, ids))
	case n < 91:
		ids := append(e.some(4, e.ids), "nobody")
		for _, dead := range e.in(queue.StateDead) {
			if e.rng.IntN(2) == 0 {
				ids = append(ids, dead.ID)
			}
		}
		e.rng.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
		e.note("requeue %q", ids)
		dead, err := wire.ReadFlags(e.do(wire.RequeueCmd(e.keys, ids...)))
		must(e.t, err)
		e.same("dead", dead, e.requeue(ids))
	case n < 93:
		e.drains(1 + e.rng.IntN(4))
	case n < 96:
		e.paused = e.rng.IntN(2) == 0
		e.note("paused: %v", e.paused)
		cmd := wire.ResumeCmd(e.keys)
		if e.paused {
			cmd = wire.PauseCmd(e.keys)
		}
		must(e.t, e.do(cmd).Err)
	default:
		e.bounds()
	}
}

func (e *episode) puts() {
	messages := make([]wire.Message, 1+e.rng.IntN(4))
	for i := range messages {
		m := &messages[i]
		*m = wire.Message{
			ID: e.one(e.ids...), Attempts: []int{1, 3, queue.Unlimited, queue.Unlimited}[e.rng.IntN(4)],
			Lane: []queue.Lane{queue.Normal, queue.Normal, queue.Low, queue.Urgent}[e.rng.IntN(4)], Group: e.one("", "", "a", "aa"),
		}
		m.Payload = []byte(m.ID)
		if e.rng.IntN(4) == 0 {
			m.Unique, m.UniqueFor = e.one("k", "l", m.ID), queue.MaxTime // by the server's clock, which doesn't stand
		}
		switch e.rng.IntN(4) {
		case 0:
			m.Delay = e.moment()
		case 1:
			m.At = e.Clock.Now().Add(e.moment() - time.Millisecond)
		}
	}
	e.note("put %+v", messages)
	e.same("placed", e.line.put(messages...), e.model.put(messages))
}

func (e *episode) pumps() {
	consumer := e.one("one", "two")
	e.take++
	p := wire.Pump{
		Consumer: consumer, Take: fmt.Sprintf("take%012d", e.take), Repeats: e.rng.IntN(4) == 0,
		N: []int{0, 1, 1, 2, 9, wire.Leave}[e.rng.IntN(6)], Lease: time.Minute + e.moment(),
	}
	if e.rng.IntN(2) == 0 { // or hardly a lease would run out
		e.settles(&p)
	}
	if last, ok := e.last[consumer]; ok && e.rng.IntN(5) == 0 {
		p = last // its reply was lost, as it were
	}
	if p.N > 0 {
		e.last[consumer] = p
		if e.rng.IntN(2) == 0 {
			must(e.t, e.Redis.Del(e.t.Context(), e.key(e.name, "wake")).Err()) // it was woken
		}
	}
	e.note("pump %+v", p)
	got := e.line.pump(p)
	e.same("pumped", got, e.model.pump(p))
	for _, m := range got.Taken {
		e.receipts = append(e.receipts, m.Receipt)
	}
	e.receipts = e.receipts[max(0, len(e.receipts)-8):]
}

func (e *episode) settles(p *wire.Pump) {
	p.Acks = e.some(2, e.receipts)
	for _, receipt := range e.some(2, e.receipts) {
		f := wire.Nack{
			Receipt: receipt, Kind: []wire.NackKind{wire.Retry, wire.Retry, wire.Kill, wire.Snooze, wire.HandBack}[e.rng.IntN(5)],
			Delay: e.moment(), Reason: fmt.Sprint("reason ", e.take),
		}
		if f.Kind == wire.Retry && e.rng.IntN(2) == 0 {
			f.Delay = -1
		}
		p.Nacks = append(p.Nacks, f)
	}
	for _, receipt := range e.some(1, e.receipts) {
		p.Results = append(p.Results, wire.Result{Receipt: receipt, Value: fmt.Sprint("of ", e.take), Keep: time.Hour})
	}
}

func (e *episode) drains(n int) {
	e.note("drain, %d at a time", n)
	removed := 0
	for skip, more, calls := 0, true, 0; more; calls++ {
		if calls > 1000 {
			e.t.Fatal("a drain goes on for ever")
		}
		gone, next, again, err := wire.ReadDrain(e.do(wire.DrainCmd(e.keys, n, skip)))
		must(e.t, err)
		removed += gone
		skip, more = next, again
	}
	e.same("removed", removed, e.model.drain())
}

func (e *episode) bounds() {
	l := wire.Limits{Concurrency: e.rng.IntN(4)}
	if e.rng.IntN(2) == 0 {
		l.Rate, l.Per, l.Burst = 1+e.rng.IntN(3), time.Second, 1+e.rng.IntN(3)
	}
	e.note("limit %+v", l)
	cmd, err := wire.LimitCmd(e.keys, l)
	must(e.t, err)
	must(e.t, e.do(cmd).Err)
	e.limit(l)
}

// look compares what is in the queue with the model.
func (e *episode) look() {
	oldest := int64(0)
	want := wire.Stats{ReadyIn: map[queue.Lane]int{queue.Low: 0, queue.Normal: 0, queue.High: 0, queue.Urgent: 0}, Next: -time.Millisecond, Paused: e.paused}
	for _, state := range []queue.State{queue.StateReady, queue.StateDue, queue.StateRunning, queue.StateDead} {
		var listed []wire.MessageInfo
		for _, m := range e.in(state) {
			l := m.listed()
			listed = append(listed, l)
			if state == queue.StateReady {
				want.ReadyIn[m.Lane]++
				if !l.When.IsZero() {
					oldest = max(oldest, e.now()-l.When.UnixMilli())
				}
			}
		}
		cmd, err := wire.MessagesCmd(e.keys, state, 0, wire.MaxSettle)
		must(e.t, err)
		got, _, err := wire.ReadMessages(e.do(cmd), state)
		must(e.t, err)
		e.same(string(state), got, listed)
	}
	want.Ready, want.Due, want.Running, want.Dead = len(e.in(queue.StateReady)), len(e.in(queue.StateDue)), len(e.in(queue.StateRunning)), len(e.in(queue.StateDead))
	want.Waiting, want.Oldest = len(e.in(queue.StateWaiting)), time.Duration(oldest)*time.Millisecond
	if due, ok := e.first(queue.StateDue); ok {
		want.Next = time.Duration(max(due-e.now(), 0)) * time.Millisecond
	}
	want.Limits = wire.Limits{Concurrency: e.limits.Concurrency}
	if e.limits.Rate > 0 {
		want.Limits.Rate, want.Limits.Per, want.Limits.Burst = 1, time.Duration(e.interval())*time.Microsecond, e.limits.Burst
	}
	e.same("stats", e.stats(), want)

	id := e.one(e.ids...)
	found, err := wire.ReadFind(e.do(wire.FindCmd(e.keys, id)), id)
	must(e.t, err)
	e.same("find "+id, found, e.find(id))

	// The state that the lists don't show.
	ctx := e.t.Context()
	inLines, failed := 0, 0
	for _, line := range e.lines {
		inLines += len(line)
	}
	for _, m := range e.messages {
		if m.fails > 0 {
			failed++
		}
	}
	e.same("in lines of groups", e.Redis.ZCard(ctx, e.key(e.name, "groups")).Val(), int64(inLines))
	e.same("failed", e.Redis.HLen(ctx, e.key(e.name, "fails")).Val(), int64(failed))
	room := e.limits.Concurrency == 0 || e.limits.Concurrency > want.Running
	if want.Ready > 0 && !e.paused && room && e.limits.Rate == 0 && e.Redis.Exists(ctx, e.key(e.name, "wake")).Val() == 0 {
		e.same("somebody is woken", false, true)
	}
}

func (e *entry) listed() wire.MessageInfo {
	l := wire.MessageInfo{Message: e.stored(), State: e.state, Failures: e.fails, LastReason: e.reason}
	switch {
	case e.state == queue.StateWaiting:
	case e.state != queue.StateReady:
		l.When = time.UnixMilli(e.score)
	case e.score%lane0 > 0:
		l.When = time.UnixMicro(e.score%lane0 + epoch)
	}
	return l
}

func (m *model) find(id string) wire.MessageInfo {
	if e := m.messages[id]; e != nil {
		return e.listed()
	}
	l := wire.MessageInfo{Message: wire.Message{ID: id}, State: queue.StateAbsent, Result: []byte{}}
	if result, ok := m.results[id]; ok {
		l.State, l.Result = queue.StateDone, []byte(result)
	}
	return l
}

// end empties the queue, which leaves only the keys that are kept for a time.
func (e *episode) end() {
	must(e.t, e.do(wire.ResumeCmd(e.keys)).Err)
	cmd, err := wire.LimitCmd(e.keys, wire.Limits{})
	must(e.t, err)
	must(e.t, e.do(cmd).Err)
	e.drains(wire.MaxSettle)
	e.line.cancel(wire.CancelCmd, e.ids...)
	e.line.cancel(wire.DeleteCmd, e.ids...)
	e.line.pump(wire.Pump{N: 1})
	left := e.Redis.Keys(e.t.Context(), e.key(e.name, "")+"*").Val()
	left = slices.DeleteFunc(left, func(key string) bool {
		for _, kept := range []string{"take", "unique", "result"} {
			if strings.HasPrefix(key, e.key(e.name, kept)+":") {
				return true
			}
		}
		return false
	})
	if len(left) > 0 {
		e.t.Errorf("these keys are left: %q", left)
	}
}
