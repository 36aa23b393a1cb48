package socket

import "sync"

// Turns is a set of clients that one goroutine at a time, the leader, waits for and serves in turn. Any
// goroutine may call Add, Forget and Each. Only the leader may call the other methods.
type Turns[C any] struct {
	poll *Poll

	mu      sync.Mutex
	clients map[uint64]*seat[C]

	events  []Event
	pending []Event    // of events
	again   []*seat[C] // clients with more bytes than a turn took
	due     []*seat[C] // again, as it was when the pending events came
	had     int        // of due
}

// A seat is the place of a client.
type seat[C any] struct {
	id     uint64
	client C
	again  bool // it is in again
}

// A Turn is the turn of a client. Last says that the end of its connection has come. Again says that
// no new bytes may have come since its last turn.
type Turn[C any] struct {
	Client      C
	Last, Again bool
}

// NewTurns returns Turns without clients. It fails on systems without a [Poll].
func NewTurns[C any]() (*Turns[C], error) {
	poll, err := NewPoll()
	if err != nil {
		return nil, err
	}
	return &Turns[C]{poll: poll, clients: make(map[uint64]*seat[C])}, nil
}

// Add begins to wait for a client, whose connection is a bare one.
func (t *Turns[C]) Add(id uint64, client C, conn *Conn) error {
	t.mu.Lock()
	t.clients[id] = &seat[C]{id: id, client: client}
	t.mu.Unlock()
	return t.poll.Add(conn, id)
}

// Forget removes a client.
func (t *Turns[C]) Forget(id uint64) {
	t.mu.Lock()
	delete(t.clients, id)
	t.mu.Unlock()
}

// Each calls f for all clients. It must not call Add or Forget.
func (t *Turns[C]) Each(f func(C)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, s := range t.clients {
		f(s.client)
	}
}

func (t *Turns[C]) find(id uint64) *seat[C] {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.clients[id]
}

// Next returns whose turn it is. It reports false after the last: then Wait.
func (t *Turns[C]) Next() (Turn[C], bool) {
	for len(t.pending) > 0 {
		e := t.pending[0]
		t.pending = t.pending[1:]
		if s := t.find(e.ID); s != nil {
			return Turn[C]{Client: s.client, Last: e.Last}, true
		}
	}
	for t.had < len(t.due) {
		s := t.due[t.had]
		t.due[t.had] = nil
		t.had++
		if s.again = false; t.find(s.id) == s {
			return Turn[C]{Client: s.client, Again: true}, true
		}
	}
	return Turn[C]{}, false
}

// Again gives a client another turn, once all who have sent something had one.
func (t *Turns[C]) Again(id uint64) {
	if s := t.find(id); s != nil && !s.again {
		s.again = true
		t.again = append(t.again, s)
	}
}

// Behind reports whether somebody has another turn without having sent anything.
func (t *Turns[C]) Behind() bool { return len(t.again) > 0 }

// Wait waits until somebody sends something, unless they are Behind. After Close it
// returns an error.
func (t *Turns[C]) Wait() (err error) {
	if t.Behind() {
		t.events, err = t.poll.Look(t.events[:0])
		t.due, t.again, t.had = t.again, t.due[:0], 0
	} else {
		t.events, err = t.poll.Wait(t.events[:0])
	}
	t.pending = t.events
	return err
}

// Close ends Wait.
func (t *Turns[C]) Close() error { return t.poll.Close() }
