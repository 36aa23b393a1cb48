package engine

import (
	"context"
	"slices"
	"sync"
)

// A hub delivers published messages to the functions given to
// [Engine.Subscribe]. Publishers only queue, in the order of publishing; one
// goroutine calls the functions, while there is something to deliver.
type hub struct {
	mu        sync.Mutex
	s         *Session // subscribed to all channels with listeners; nil at first
	listeners map[hubKey][]*listener

	queueMu sync.Mutex // taken after mu, and by publishers
	queue   []hubMessage
	size    int // bytes in queue
	next    uint64
	lost    uint64 // messages before this one were dropped
	running bool
}

type hubKey struct {
	name    string
	sharded bool
}

type hubMessage struct {
	n     uint64
	frame []byte
}

type listener struct {
	on      func(payload string, lost bool)
	since   uint64 // the first message that is meant for it
	stopped bool   // guarded by hub.mu
}

// maxQueued bounds the bytes that wait for functions that don't keep up.
const maxQueued = 64 << 20

// Subscribe calls on for each message published to a channel until stop is called: see
// [redoubt.Subscriber]. One goroutine makes the calls of all subscriptions. When more than 64 MiB
// of messages wait for it, the engine drops them, and passes lost = true with the next one.
//
// No new call of on begins after stop has returned; one may be under way. on must not call Close, which
// waits for it.
func (e *Engine) Subscribe(ctx context.Context, channel string, sharded bool, on func(payload string, lost bool)) (stop func(), err error) {
	if err := e.refuse(ctx); err != nil {
		return nil, err
	}
	h := &e.hub
	key := hubKey{channel, sharded}
	l := &listener{on: on}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.s == nil {
		h.s = e.unlisted()
		h.s.OnPush(h.push)
		h.listeners = map[hubKey][]*listener{}
	}
	if len(h.listeners[key]) == 0 {
		if err := h.command("SUBSCRIBE", key); err != nil {
			return nil, err
		}
	}
	h.queueMu.Lock()
	l.since = h.next
	h.queueMu.Unlock()
	h.listeners[key] = append(h.listeners[key], l)
	return sync.OnceFunc(func() { h.remove(key, l) }), nil
}

func (h *hub) remove(key hubKey, l *listener) {
	h.mu.Lock()
	defer h.mu.Unlock()
	l.stopped = true
	rest := slices.DeleteFunc(slices.Clone(h.listeners[key]), func(o *listener) bool { return o == l })
	if len(rest) > 0 {
		h.listeners[key] = rest
		return
	}
	delete(h.listeners, key)
	_ = h.command("UNSUBSCRIBE", key) // which can't be refused
}

// command subscribes or unsubscribes. h.mu is held.
func (h *hub) command(name string, key hubKey) error {
	if key.sharded {
		name = "S" + name
	}
	out, _ := h.s.Do(nil, [][]byte{[]byte(name), []byte(key.name)})
	return reply(out).Err
}

// push queues a message. Its caller holds locks.
func (h *hub) push(frame []byte) {
	h.queueMu.Lock()
	defer h.queueMu.Unlock()
	h.next++
	if h.size += len(frame); h.size > maxQueued {
		h.queue, h.size, h.lost = nil, len(frame), h.next
	}
	h.queue = append(h.queue, hubMessage{h.next, frame})
	if !h.running {
		h.running = h.s.e.background.start(h.run)
	}
	if !h.running { // the engine is closed
		h.queue, h.size = nil, 0
	}
}

// run delivers until nothing is queued, or the engine is closed.
func (h *hub) run() {
	for {
		h.queueMu.Lock()
		batch, lost := h.queue, h.lost
		h.queue, h.size, h.lost = nil, 0, 0
		if len(batch) == 0 || h.s.e.closed.Load() {
			h.running = false
			h.queueMu.Unlock()
			return
		}
		h.queueMu.Unlock()
		if lost > 0 {
			h.tellLost(lost)
		}
		for _, m := range batch {
			if h.s.e.closed.Load() {
				break
			}
			h.deliver(m)
		}
	}
}

func (h *hub) deliver(m hubMessage) {
	v, _ := decode(m.frame)
	parts, ok := v.([]any)
	if !ok || len(parts) != 3 {
		return
	}
	kind, _ := parts[0].(string)
	channel, _ := parts[1].(string)
	payload, _ := parts[2].(string)
	h.call(hubKey{channel, kind == "smessage"}, m.n, payload, false)
}

func (h *hub) tellLost(n uint64) {
	h.mu.Lock()
	var keys []hubKey
	for k := range h.listeners {
		keys = append(keys, k)
	}
	h.mu.Unlock()
	for _, k := range keys {
		h.call(k, n, "", true)
	}
}

// call calls the listeners of a channel, one after the other, without a lock:
// any of them may stop any other.
func (h *hub) call(key hubKey, n uint64, payload string, lost bool) {
	h.mu.Lock()
	listeners := h.listeners[key] // replaced, never changed in place, but for appending
	h.mu.Unlock()
	for _, l := range listeners {
		h.mu.Lock()
		due := !l.stopped && n > l.since
		h.mu.Unlock()
		if due {
			l.on(payload, lost)
		}
	}
}
