package conn

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/redoubt-go/redoubt"
)

const (
	HubPing    = 3 * time.Second // between two pings, or of silence before one; and before giving up on the answer
	HubCommand = 5 * time.Second // for one command, dialling included
	hubLinger  = time.Second     // how long a hub without channels is kept
)

// A Hub is one subscription connection and what is subscribed on it. After any trouble the connection is given
// up and a new one subscribes everything again.
type Hub struct {
	hubKey

	hubs    *Hubs
	cancel  context.CancelFunc
	ended   chan struct{} // closed when the goroutine is gone
	changed chan struct{}

	// Guarded by hubs.mu.
	channels map[string]*Channel
	unwanted []string // to be unsubscribed
	err      error    // of the last connection
	linger   *time.Timer
}

// run connects again and again until the hub ends.
func (b *Hub) run(ctx context.Context) {
	defer close(b.ended)
	p := Pauses{Endless: true} // listeners stop when they give up
	for ctx.Err() == nil {
		start := time.Now()
		err := b.hubs.Client.Listen(ctx, b)
		if ctx.Err() != nil {
			return
		}
		b.failed(err, b.hubs.Client.Final(b, err))
		if time.Since(start) > HubPing {
			p = Pauses{Endless: true} // it worked for a while
		}
		_ = p.Wait(ctx)
		if b.Node != "" {
			b.rehome(ctx)
		}
	}
}

// failed notes why the connection ended. If final is not nil it is the error of the subscribers that still wait.
func (b *Hub) failed(err, final error) {
	b.hubs.mu.Lock()
	defer b.hubs.mu.Unlock()
	b.err = err
	if final == nil {
		return
	}
	for _, ch := range b.channels {
		b.refuse(ch, final)
	}
}

// rehome looks at the cluster anew and moves the channels whose slots are elsewhere now.
func (b *Hub) rehome(ctx context.Context) {
	bounded, cancel := context.WithTimeout(ctx, HubCommand)
	defer cancel()
	if err := b.hubs.Client.Refresh(bounded); err != nil {
		return // try again after the next connection
	}
	for _, ch := range b.Channels() {
		key, err := b.hubs.owner(bounded, ch.Name, true)
		if err != nil {
			return
		}
		b.hubs.mu.Lock()
		if key != b.hubKey && b.channels[ch.Name] == ch && ctx.Err() == nil {
			delete(b.channels, ch.Name)
			b.hubs.assign(ch, key)
			b.closeWhenIdle()
		}
		b.hubs.mu.Unlock()
	}
}

// closeWhenIdle closes the hub a little after its last channel went. hubs.mu is held.
func (b *Hub) closeWhenIdle() {
	if len(b.channels) > 0 || b.linger != nil {
		return
	}
	var t *time.Timer
	t = time.AfterFunc(hubLinger, func() {
		b.hubs.mu.Lock()
		defer b.hubs.mu.Unlock()
		if b.linger != t || len(b.channels) > 0 {
			return
		}
		if b.hubs.all[b.hubKey] == b {
			delete(b.hubs.all, b.hubKey)
		}
		b.cancel()
	})
	b.linger = t
}

func (b *Hub) wake() {
	select {
	case b.changed <- struct{}{}:
	default:
	}
}

// drop takes ch off the hub. hubs.mu is held.
func (b *Hub) drop(ch *Channel) {
	if b.channels[ch.Name] != ch {
		return
	}
	delete(b.channels, ch.Name)
	if ch.sent {
		b.unwanted = append(b.unwanted, ch.Name)
		b.wake()
	}
	b.closeWhenIdle()
}

// refuse ends the waiting for ch's first confirmation. hubs.mu is held.
func (b *Hub) refuse(ch *Channel, err error) {
	if ch.confirmed {
		return
	}
	ch.err = err
	close(ch.ready)
	b.drop(ch)
}

// Begin marks all channels as yet to be subscribed, on a new connection.
func (b *Hub) Begin() {
	b.hubs.mu.Lock()
	defer b.hubs.mu.Unlock()
	for _, ch := range b.channels {
		ch.sent = false
	}
	b.unwanted = nil
	b.wake()
}

// Changed receives when [Hub.Pending] has something new.
func (b *Hub) Changed() <-chan struct{} { return b.changed }

// Pending returns the channels to be subscribed and the names to be unsubscribed, each once on a connection. Send
// the names first: one may be among the channels too.
func (b *Hub) Pending() (add []*Channel, remove []string) {
	b.hubs.mu.Lock()
	defer b.hubs.mu.Unlock()
	remove, b.unwanted = b.unwanted, nil
	for _, ch := range b.channels {
		if !ch.sent {
			ch.sent = true
			add = append(add, ch)
		}
	}
	return add, remove
}

// Channel returns the channel with that name, nil if there is none.
func (b *Hub) Channel(name string) *Channel {
	b.hubs.mu.Lock()
	defer b.hubs.mu.Unlock()
	return b.channels[name]
}

// Channels returns all channels, in any order.
func (b *Hub) Channels() []*Channel {
	b.hubs.mu.Lock()
	defer b.hubs.mu.Unlock()
	return slices.Collect(maps.Values(b.channels))
}

// Sent reports whether Pending has returned ch on the present connection and ch has not been stopped.
func (b *Hub) Sent(ch *Channel) bool {
	b.hubs.mu.Lock()
	defer b.hubs.mu.Unlock()
	return b.sent(ch)
}

func (b *Hub) sent(ch *Channel) bool { return ch != nil && b.channels[ch.Name] == ch && ch.sent }

// Confirm notes that the server has confirmed ch on the present connection. again reports that the server had
// confirmed it on an earlier connection: messages may be lost, so tell the listeners by [Hub.Deliver].
// Confirm does nothing if ch is nil or not [Hub.Sent].
func (b *Hub) Confirm(ch *Channel) (again bool) {
	b.hubs.mu.Lock()
	defer b.hubs.mu.Unlock()
	if !b.sent(ch) {
		return false
	}
	b.err = nil
	if ch.confirmed {
		return true
	}
	ch.confirmed = true
	close(ch.ready)
	return false
}

// Refuse ends the wait for the first confirmation of ch with err, the server's refusal. It does nothing if ch is
// nil or not [Hub.Sent].
func (b *Hub) Refuse(ch *Channel, err error) {
	b.hubs.mu.Lock()
	defer b.hubs.mu.Unlock()
	if b.sent(ch) {
		b.refuse(ch, err)
	}
}

// Deliver calls a channel's listeners. It does nothing if ch is nil.
func (b *Hub) Deliver(ch *Channel, payload string, lost bool) {
	if ch == nil {
		return
	}
	b.hubs.mu.Lock()
	listeners := ch.listeners // never changed in place
	b.hubs.mu.Unlock()
	for _, l := range listeners {
		l.mu.Lock()
		b.hubs.mu.Lock()
		stopped := l.stopped
		b.hubs.mu.Unlock()
		if !stopped {
			l.on(payload, lost)
		}
		l.mu.Unlock()
	}
}

// Transient reports whether the server may take the subscription later, or another server.
func Transient(se redoubt.ServerError) bool {
	switch se.Code() {
	case "MOVED", "ASK", "CLUSTERDOWN", "TRYAGAIN", "LOADING", "MASTERDOWN", "READONLY":
		return true
	}
	return false
}
