package queue_test

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"

	wire "github.com/redoubt-go/redoubt/internal/wire/queue"
	"github.com/redoubt-go/redoubt/queue"
)

// A model is what is in a queue, in Go, and what its scripts do to it.
type model struct {
	µs       int64 // since 1970
	messages map[string]*entry
	lines    map[string][]string // of groups, the one with the turn first
	unique   map[string]string
	results  map[string]string
	takes    map[string]lastTake // by consumer
	paused   bool
	limits   wire.Limits
	tat      int64 // the theoretical arrival time of the rate
}

// An entry is a message in a model.
type entry struct {
	wire.Message
	state queue.State
	// score is the place in line of one that is ready, and of others when they are due,
	// when their lease ends, and when they died, in ms.
	score   int64
	receipt string
	fails   int
	reason  string
}

type lastTake struct {
	name string
	ends int64
}

func newModel(now time.Time) *model {
	return &model{
		µs: now.UnixMicro(), messages: map[string]*entry{}, lines: map[string][]string{}, unique: map[string]string{},
		results: map[string]string{}, takes: map[string]lastTake{},
	}
}

const (
	lane0 = int64(1) << 51               // from one lane to the next
	epoch = int64(1_577_836_800_000_000) // of places in a lane: 2020, in µs
)

func (m *model) now() int64   { return m.µs / 1000 }
func (m *model) place() int64 { return m.µs - epoch }

// after is when a delay is over: in whole ms, and not before.
func (m *model) after(d time.Duration) int64 {
	if d == 0 {
		return m.now()
	}
	return (m.µs+999)/1000 + d.Milliseconds()
}

// in returns the messages of one state, in their order.
func (m *model) in(state queue.State) (list []*entry) {
	for _, e := range m.messages {
		if e.state == state {
			list = append(list, e)
		}
	}
	slices.SortFunc(list, func(a, b *entry) int {
		return cmp.Or(cmp.Compare(a.score, b.score), cmp.Compare(a.receipt, b.receipt), cmp.Compare(a.ID, b.ID))
	})
	return list
}

func (m *model) first(state queue.State) (score int64, ok bool) {
	if list := m.in(state); len(list) > 0 {
		return list[0].score, true
	}
	return 0, false
}

func (e *entry) becomes(state queue.State, score int64) {
	e.state, e.score, e.receipt = state, score, ""
}

func (e *entry) ready(place int64) {
	e.becomes(queue.StateReady, int64(queue.Urgent-e.Lane)*lane0+place)
}

// enter makes a message ready, or lets it wait behind others of its group.
func (m *model) enter(e *entry, place int64) {
	line := m.lines[e.Group]
	if e.Group != "" && (len(line) == 0 || line[0] != e.ID) {
		m.lines[e.Group] = append(line, e.ID)
		if len(line) > 0 {
			e.becomes(queue.StateWaiting, 0)
			return
		}
	}
	e.ready(place)
}

// leave takes a message out of its group's line: the next may have the turn then.
func (m *model) leave(e *entry) {
	line := m.lines[e.Group]
	at := slices.Index(line, e.ID)
	if e.Group == "" || at < 0 {
		return
	}
	line = slices.Delete(line, at, at+1)
	m.lines[e.Group] = line
	if len(line) == 0 {
		delete(m.lines, e.Group)
	} else if at == 0 {
		m.messages[line[0]].ready(m.place())
	}
}

func (m *model) remove(e *entry) {
	delete(m.messages, e.ID)
	m.leave(e)
}

func (m *model) promote() {
	for _, e := range m.in(queue.StateDue) {
		if e.score <= m.now() {
			m.enter(e, e.score*1000-epoch)
		}
	}
}

func (m *model) put(messages []wire.Message) (placed []wire.PutResult) {
	last := map[queue.Lane]int64{} // a new message stands behind all others of its lane
	for _, msg := range messages {
		status, claimed := wire.PutResult{ID: msg.ID, Status: queue.Added}, false
		if msg.Unique != "" {
			owner, taken := m.unique[msg.Unique]
			switch {
			case !taken:
				m.unique[msg.Unique], claimed = msg.ID, true
			case owner == msg.ID:
				status.Status = queue.Exists
			default:
				status = wire.PutResult{ID: owner, Status: queue.Duplicate}
			}
		}
		if old := m.messages[msg.ID]; status.Status == queue.Added && old != nil && old.state != queue.StateDead {
			status.Status = queue.Exists
			if claimed {
				delete(m.unique, msg.Unique)
			}
		}
		placed = append(placed, status)
		if status.Status != queue.Added {
			continue
		}
		e := &entry{Message: msg}
		when := m.now()
		if msg.Delay > 0 {
			when = m.after(msg.Delay)
		} else if !msg.At.IsZero() {
			when = (msg.At.UnixMicro() + 999) / 1000
		}
		if when > m.now() {
			m.messages[msg.ID] = e
			e.becomes(queue.StateDue, when)
			continue
		}
		if msg.Group != "" {
			m.promote()
		}
		if _, ok := last[msg.Lane]; !ok {
			last[msg.Lane] = m.place() - 1
			for _, other := range m.in(queue.StateReady) {
				if other.Lane == msg.Lane {
					last[msg.Lane] = max(last[msg.Lane], other.score%lane0)
				}
			}
		}
		last[msg.Lane]++
		m.messages[msg.ID] = e
		m.enter(e, last[msg.Lane])
	}
	return placed
}

// fail counts a failure: the message dies of it, or comes back at a time in ms, 0 for
// at once in front of all others.
func (m *model) fail(e *entry, reason string, again int64) {
	e.fails++
	e.reason = reason
	switch {
	case again < 0 || e.Attempts > 0 && e.fails >= e.Attempts:
		e.becomes(queue.StateDead, m.now())
		m.leave(e)
	case again > 0:
		e.becomes(queue.StateDue, again)
	case e.Attempts > 0 || e.fails < 2:
		e.ready(0)
	default: // it may for ever, so others go first
		e.becomes(queue.StateDue, m.now()+backoff(e.fails).Milliseconds())
	}
}

func backoff(n int) time.Duration { return min(time.Second<<min(n-1, 20), 10*time.Minute) }

// settle settles what p says, and returns the positions of receipts that are not held.
func (m *model) settle(p wire.Pump) (refused []int) {
	i := -1
	settle := func(receipt string, f func(e *entry)) {
		i++
		e := m.messages[wire.IDOf(receipt)]
		if e == nil || e.receipt != receipt {
			refused = append(refused, i)
			return
		}
		e.receipt = ""
		f(e)
	}
	for _, receipt := range p.Acks {
		settle(receipt, m.remove)
	}
	for _, r := range p.Results {
		settle(r.Receipt, func(e *entry) {
			m.results[e.ID] = r.Value
			m.remove(e)
		})
	}
	for _, f := range p.Nacks {
		settle(f.Receipt, func(e *entry) {
			delay := f.Delay
			if delay < 0 {
				delay = backoff(e.fails + 1)
			}
			switch f.Kind {
			case wire.HandBack:
				e.ready(0)
			case wire.Snooze:
				e.becomes(queue.StateDue, m.after(delay))
			case wire.Kill:
				m.fail(e, f.Reason, -1)
			case wire.Retry:
				m.fail(e, f.Reason, m.after(delay))
			}
		})
	}
	return refused
}

func (m *model) pump(p wire.Pump) (got wire.Pumped) {
	got.Now, got.Taken = time.UnixMilli(m.now()), []wire.Taken{}
	got.Refused = m.settle(p)
	for _, e := range m.in(queue.StateRunning) {
		if e.score <= m.now() {
			m.fail(e, "its lease ran out", 0)
		}
	}
	m.promote()

	room := math.MaxInt
	if m.paused {
		room = 0
	}
	if m.limits.Concurrency > 0 {
		room = min(room, m.limits.Concurrency-len(m.in(queue.StateRunning)))
	}
	room = min(room, m.tokens())

	prior, last := m.takes[p.Consumer]
	if p.N > 0 && last && (p.Repeats || prior.name == p.Take) {
		for _, e := range m.in(queue.StateRunning) {
			if e.score == prior.ends && e.receipt == prior.name+e.ID {
				got.Taken = append(got.Taken, e.taken(0))
				got.Again = true
			}
		}
	}
	if !got.Again {
		ends := m.now() + p.Lease.Milliseconds()
		for _, e := range m.in(queue.StateReady) {
			if len(got.Taken) >= min(p.N, room) {
				break
			}
			since := e.score % lane0
			e.becomes(queue.StateRunning, ends)
			e.receipt = p.Take + e.ID
			got.Taken = append(got.Taken, e.taken(since))
		}
		if len(got.Taken) > 0 {
			m.takes[p.Consumer] = lastTake{p.Take, ends}
			if m.limits.Rate > 0 {
				m.tat = max(m.tat, m.place()) + m.interval()*int64(len(got.Taken))
			}
		} else if p.N > 0 {
			delete(m.takes, p.Consumer)
		}
	}

	got.Ready = len(m.in(queue.StateReady))
	got.Next = -time.Millisecond
	soon := func(ms int64, ok bool) {
		if next := time.Duration(max(ms-m.now(), 0)) * time.Millisecond; ok && (got.Next < 0 || next < got.Next) {
			got.Next = next
		}
	}
	soon(m.first(queue.StateDue))
	soon(m.first(queue.StateRunning))
	// When the rate lets one be taken again.
	wait := m.tat - m.place() - m.interval()*int64(m.limits.Burst-1)
	soon(m.now()+(wait+999)/1000, m.limits.Rate > 0 && got.Ready > 0 && wait > 0 && !m.paused)
	return got
}

func (e *entry) taken(since int64) wire.Taken {
	t := wire.Taken{Message: e.stored(), Receipt: e.receipt, Failures: e.fails, LastReason: e.reason}
	if ms := (since + epoch) / 1000; ms > epoch/1000 {
		t.Since = time.UnixMilli(ms)
	}
	return t
}

// stored is what is kept of a message.
func (e *entry) stored() wire.Message {
	return wire.Message{ID: e.ID, Payload: e.Payload, Attempts: e.Attempts, Lane: e.Lane, Group: e.Group}
}

// interval is the time from one token of the rate to the next, in µs.
func (m *model) interval() int64 {
	if m.limits.Rate == 0 {
		return 0
	}
	return (m.limits.Per.Microseconds() + int64(m.limits.Rate) - 1) / int64(m.limits.Rate)
}

// tokens is how many the rate lets be taken.
func (m *model) tokens() int {
	if m.limits.Rate == 0 {
		return math.MaxInt
	}
	ahead, each := max(m.tat-m.place(), 0), m.interval()
	return m.limits.Burst - int((ahead+each-1)/each)
}

func (m *model) limit(l wire.Limits) {
	before := m.interval()
	burst := m.limits.Burst
	if m.limits = l; m.interval() != before || l.Burst != burst {
		m.tat = 0
	}
}

func (m *model) extend(lease time.Duration, receipts []string) (held []bool) {
	for _, receipt := range receipts {
		e := m.messages[wire.IDOf(receipt)]
		ok := e != nil && e.receipt == receipt
		if held = append(held, ok); ok {
			e.score = max(e.score, m.now()+lease.Milliseconds())
		}
	}
	return held
}

// cancel removes what is dead, or what is not.
func (m *model) cancel(dead bool, ids []string) (was []queue.State) {
	var gone []*entry
	for _, id := range ids {
		e, what := m.messages[id], queue.StateAbsent
		switch {
		case e == nil:
		case e.state == queue.StateDead:
			what = queue.StateDead
		case dead:
		case e.state == queue.StateRunning:
			what = queue.StateRunning
		default:
			what = queue.StatePending
		}
		if was = append(was, what); what != queue.StateAbsent && (what == queue.StateDead) == dead {
			delete(m.messages, id)
			gone = append(gone, e)
		}
	}
	m.leaveAll(gone)
	return was
}

// leaveAll takes messages out of lines that are removed together: none of them has the
// turn in between.
func (m *model) leaveAll(gone []*entry) {
	for _, waits := range []bool{true, false} {
		for _, e := range gone {
			if (e.state == queue.StateWaiting) == waits {
				m.leave(e)
			}
		}
	}
}

func (m *model) requeue(ids []string) (was []bool) {
	promoted := false
	for i, id := range ids {
		e := m.messages[id]
		dead := e != nil && e.state == queue.StateDead
		if was = append(was, dead); !dead {
			continue
		}
		e.fails, e.reason = 0, ""
		if e.Group != "" && !promoted {
			m.promote()
			promoted = true
		}
		m.enter(e, m.place()+int64(i))
	}
	return was
}

func (m *model) drain() (removed int) {
	var gone []*entry
	for _, id := range slices.Sorted(maps.Keys(m.messages)) {
		switch e := m.messages[id]; e.state {
		case queue.StateReady, queue.StateDue, queue.StateWaiting:
			delete(m.messages, id)
			gone = append(gone, e)
		default:
		}
	}
	m.leaveAll(gone)
	return len(gone)
}
