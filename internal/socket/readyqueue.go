package socket

import "sync"

// A ReadyQueue holds clients. One goroutine at a time, the leader, waits for clients that have sent
// something and serves them in turn. Any goroutine may call Add, Remove and Each. Only the leader may
// call the other methods.
type ReadyQueue[C any] struct {
	poll *Poll

	mu      sync.Mutex
	clients map[uint64]*member[C]

	events   []Event
	pending  []Event      // of events
	requeued []*member[C] // requeued clients
	due      []*member[C] // requeued, as it was when the pending events came
	served   int          // of due
}

// A member is a client of a ReadyQueue.
type member[C any] struct {
	id       uint64
	client   C
	requeued bool // it is in requeued
}

// A Ready is a client to be served. Last says that the end of its connection has come. Requeued says
// that no new bytes may have come since it was served last.
type Ready[C any] struct {
	Client         C
	Last, Requeued bool
}

// NewReadyQueue returns a ReadyQueue without clients. It fails on systems without a [Poll].
func NewReadyQueue[C any]() (*ReadyQueue[C], error) {
	poll, err := NewPoll()
	if err != nil {
		return nil, err
	}
	return &ReadyQueue[C]{poll: poll, clients: make(map[uint64]*member[C])}, nil
}

// Add begins to wait for a client, whose connection is a detached one.
func (q *ReadyQueue[C]) Add(id uint64, client C, conn *Conn) error {
	q.mu.Lock()
	q.clients[id] = &member[C]{id: id, client: client}
	q.mu.Unlock()
	return q.poll.Add(conn, id)
}

// Remove removes a client.
func (q *ReadyQueue[C]) Remove(id uint64) {
	q.mu.Lock()
	delete(q.clients, id)
	q.mu.Unlock()
}

// Each calls f for all clients. It must not call Add or Remove.
func (q *ReadyQueue[C]) Each(f func(C)) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, s := range q.clients {
		f(s.client)
	}
}

func (q *ReadyQueue[C]) find(id uint64) *member[C] {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.clients[id]
}

// Next returns the next client to be served. It reports false after the last: then Wait.
func (q *ReadyQueue[C]) Next() (Ready[C], bool) {
	for len(q.pending) > 0 {
		e := q.pending[0]
		q.pending = q.pending[1:]
		if s := q.find(e.ID); s != nil {
			return Ready[C]{Client: s.client, Last: e.Last}, true
		}
	}
	for q.served < len(q.due) {
		s := q.due[q.served]
		q.due[q.served] = nil
		q.served++
		if s.requeued = false; q.find(s.id) == s {
			return Ready[C]{Client: s.client, Requeued: true}, true
		}
	}
	return Ready[C]{}, false
}

// Requeue has a client served once more, behind all clients that have sent something.
func (q *ReadyQueue[C]) Requeue(id uint64) {
	if s := q.find(id); s != nil && !s.requeued {
		s.requeued = true
		q.requeued = append(q.requeued, s)
	}
}

// Backlogged reports whether a client was requeued, so that Wait would not wait.
func (q *ReadyQueue[C]) Backlogged() bool { return len(q.requeued) > 0 }

// Wait waits until a client sends something, unless the queue is Backlogged. After Close it returns
// an error.
func (q *ReadyQueue[C]) Wait() (err error) {
	if q.Backlogged() {
		q.events, err = q.poll.Look(q.events[:0])
		q.due, q.requeued, q.served = q.requeued, q.due[:0], 0
	} else {
		q.events, err = q.poll.Wait(q.events[:0])
	}
	q.pending = q.events
	return err
}

// Close ends Wait.
func (q *ReadyQueue[C]) Close() error { return q.poll.Close() }
