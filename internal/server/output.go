package server

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/command"
	"github.com/redoubt-go/redoubt/internal/proxy/budget"
	"github.com/redoubt-go/redoubt/internal/resp"
	"github.com/redoubt-go/redoubt/internal/socket"
)

// A translate appends to dst what a client gets instead of the reply raw.
type translate func(dst, raw []byte) []byte

// An undo takes back what a script did, given its reply.
type undo func(ctx context.Context, r redoubt.Reply)

// A slot is the place of one reply in a client's order. A reply that comes in order
// and unchanged doesn't touch its slot.
type slot struct {
	raw      []byte // the reply, when it came before its turn
	change   translate
	script   command.Translate // as change, for the reply of a script
	protocol resp.Protocol     // for script
	undo     undo
	done     bool
	mute     bool // CLIENT REPLY OFF or SKIP
	blocks   bool // the command may wait on the back end, like BLPOP
}

// An output puts a client's replies in order and writes them. Replies come
// from the goroutine that reads the client and from the goroutines that read the
// back end. These must not wait for a slow client. So they write as much as the
// socket takes at once, and another goroutine writes the rest.
type output struct {
	conn    *socket.Conn
	client  net.Addr
	timeout time.Duration
	max     int
	traffic *traffic
	head    atomic.Uint64 // the tag of the first reply to come; written under mu
	typical atomic.Int64  // bytes of a reply: the largest, slowly forgotten; written under mu
	onPanic func(v any)
	onLost  func(u undo, raw []byte) // a reply that came too late for the client
	onSlow  func()                   // calls made able to wait, soon: until then the rest of what is written is parked

	mu        sync.Mutex
	changed   sync.Cond // head, buf, writing or err changed, and waiting > 0
	waiting   int
	buf       []byte      // replies in order, and messages between them, to be written
	messages  int         // bytes of messages in buf
	leaving   int         // and in what is being written
	going     int         // bytes of what is being written
	early     int         // bytes of replies in slots, which came before their turn
	coming    int         // bytes of replies that are being read
	lent      int         // bytes of the buffer that the reading goroutine fills with replies
	share     budget.Part // all of these, and what the buffers have free
	spare     []byte
	slots     []slot // a ring; its length is a power of two
	writing   bool   // somebody writes
	full      bool   // and the client didn't take it all at once
	unable    bool   // to wait for the client: the connection is a poller's
	parked    func() // writes the rest, with the right to write, when it is able
	hungUp    bool   // the client gets no more replies
	keeping   bool   // replies stay here for now, to leave with the end of the connection
	ending    bool   // no message is wanted any more once last is answered
	last      uint64 // the tag behind the last command, when ending
	scheduled bool   // a Flush was promised
	err       error  // why nothing can be written any more
	coalescing
	timer
}

const (
	firstSlots    = 16
	maxIdleOutput = 64 << 10 // larger buffers are given back when they are empty
	maxIdleSlot   = 1 << 10
	writeChunk    = 256 << 10
	tlsChunk      = 16 << 10 // one record
	smallReply    = 1 << 10  // MaxPipeline of this size don't matter
	firstPipeline = 16       // commands in flight before any reply tells their size
	largeInFlight = 4 << 20  // bytes of replies in flight, where replies are not small
)

func (o *output) init() {
	o.changed.L = &o.mu
	o.slots = make([]slot, firstSlots)
}

// slot returns the slot of a tag. The caller holds mu.
func (o *output) slot(tag uint64) *slot { return &o.slots[tag&uint64(len(o.slots)-1)] }

// grow doubles the ring. Called by the goroutine that reads the client.
func (o *output) grow(next uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	bigger := make([]slot, 2*len(o.slots))
	for tag := o.head.Load(); tag < next; tag++ {
		bigger[tag&uint64(len(bigger)-1)] = *o.slot(tag)
	}
	o.slots = bigger
}

// prepare says how to treat the reply with this tag, before its command is sent.
func (o *output) prepare(tag uint64, s slot) {
	o.mu.Lock()
	sl := o.slot(tag)
	s.raw = sl.raw[:0]
	*sl = s
	o.mu.Unlock()
}

// Count implements proxy.Counted.
func (o *output) Count(n int) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err != nil && n > 0 {
		return false // nobody is there to get it
	}
	o.coming += n
	if n > 0 && !o.share.Hold(o.holding()) {
		o.coming -= n
		o.measure(int64(n)) // a short error takes its place
		return false
	}
	if n < 0 {
		o.count()
	}
	return true
}

// Reply implements proxy.ReplyHandler.
func (o *output) Reply(tag uint64, raw []byte) (flush bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err != nil || o.hungUp {
		if sl := o.slot(tag); sl.undo != nil {
			o.onLost(sl.undo, bytes.Clone(raw))
		}
		return false
	}
	o.measure(int64(len(raw)))
	sl := o.slot(tag)
	head := o.head.Load()
	if tag != head {
		sl.raw = o.apply(sl.raw[:0], sl, raw)
		sl.done = true
		o.early += len(sl.raw)
		o.count()
		return false
	}
	if sl.change == nil && sl.script == nil && !sl.mute {
		o.buf = append(o.buf, raw...)
	} else {
		o.buf = o.apply(o.buf, sl, raw)
		sl.reset()
	}
	head++
	for sl = o.slot(head); sl.done; sl = o.slot(head) {
		o.buf = append(o.buf, sl.raw...)
		o.early -= len(sl.raw)
		sl.reset()
		head++
	}
	o.head.Store(head)
	o.count()
	if o.waiting > 0 {
		o.changed.Broadcast()
	}
	return o.schedule()
}

// count tells the budget of all clients how much waits for this one, and ends it when that
// is too much. The caller holds mu.
func (o *output) count() {
	if o.err == nil && !o.share.Hold(o.holding()) {
		o.failLocked(errNoRoom)
	}
}

// holding is how much memory the output has. The caller holds mu.
func (o *output) holding() int {
	return cap(o.buf) + cap(o.spare) + o.going + o.early + o.coming + o.lent + (len(o.slots)-firstSlots)*slotSize
}

const slotSize = int(unsafe.Sizeof(slot{}))

var errNoRoom = errors.New("all clients together hold more than maxmemory-clients")

// replies takes the replies to the n commands from tag on, which must be the
// next, and whose slots are not used. It owns raw, and returns memory in its
// place. The caller calls Flush.
func (o *output) replies(tag uint64, n int, raw []byte) []byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.err != nil:
		return raw[:0]
	case tag != o.head.Load():
		o.failLocked(errors.New("a reply is out of order"))
		return raw[:0]
	}
	o.measure(int64(len(raw) / n))
	if len(o.buf) == 0 {
		o.buf, raw = raw, o.buf
	} else {
		o.buf = append(o.buf, raw...)
	}
	if cap(raw) > maxIdleOutput {
		raw = nil
	}
	o.lent = cap(raw)
	o.head.Store(tag + uint64(n)) //nolint:gosec // positive
	o.count()
	if o.waiting > 0 {
		o.changed.Broadcast()
	}
	return raw[:0]
}

// measure notes the size of a reply. The caller holds mu.
func (o *output) measure(n int64) {
	if typical := o.typical.Load(); n > typical {
		o.typical.Store(n)
	} else if typical > smallReply {
		o.typical.Store(typical - (typical-n)/16)
	}
}

func (s *slot) reset() {
	raw := s.raw[:0]
	if cap(raw) > maxIdleSlot {
		raw = nil
	}
	*s = slot{raw: raw}
}

// schedule promises one Flush. The caller holds mu.
func (o *output) schedule() bool {
	if o.scheduled {
		return false
	}
	o.scheduled = true
	return true
}

// apply appends what the client gets for raw.
func (o *output) apply(dst []byte, s *slot, raw []byte) (out []byte) {
	if s.change == nil && s.script == nil {
		if s.mute {
			return dst
		}
		return append(dst, raw...)
	}
	before := len(dst)
	defer func() {
		if v := recover(); v != nil {
			o.onPanic(v)
			out = resp.AppendError(dst[:before], "ERR redoubt: internal error")
		}
		if s.mute {
			out = out[:before]
		}
	}()
	if s.script != nil {
		return s.script(dst, s.protocol, scriptReply(raw))
	}
	return s.change(dst, raw)
}

// Push implements proxy.Listener: raw goes between the replies, here.
func (o *output) Push(raw []byte) (flush bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err != nil || o.ending && o.head.Load() == o.last {
		return false
	}
	if n := o.messages + o.leaving; n > o.max {
		o.failLocked(fmt.Errorf("%d bytes of messages wait for the client, more than the limit of %d", n, o.max))
		return false
	}
	o.messages += len(raw)
	o.buf = append(o.buf, raw...)
	o.count()
	return o.schedule()
}

// Client is the address of the client, for the slow log.
func (o *output) Client() string { return o.client.String() }

// Flush implements proxy.ReplyHandler. It never waits for the client.
func (o *output) Flush() {
	o.mu.Lock()
	o.scheduled = false
	o.measureReplies()
	if o.writing || o.err != nil || o.keeping || o.holds() {
		o.mu.Unlock()
		return
	}
	for len(o.buf) > 0 && o.err == nil {
		buf := o.take()
		o.mu.Unlock()
		n, err := o.conn.TryWrite(buf)
		if err == nil && n < len(buf) {
			o.writeLater(buf, n)
			return
		}
		o.mu.Lock()
		o.wrote(buf, n, err)
	}
	o.writing = false
	o.mu.Unlock()
}

// writeLater has the rest of buf written by a goroutine that may wait for the client.
func (o *output) writeLater(buf []byte, n int) {
	o.mu.Lock()
	o.full = true
	unable := o.unable
	if unable {
		o.parked = func() { o.writeSlowly(buf, n) }
		if o.waiting > 0 {
			o.changed.Broadcast()
		}
	}
	o.mu.Unlock()
	if unable {
		o.onSlow()
	} else {
		go o.writeSlowly(buf, n)
	}
}

// makeAble runs able while nobody writes. able makes the connection one that can wait.
func (o *output) makeAble(able func()) {
	o.mu.Lock()
	o.waiting++
	for o.writing && o.parked == nil { // others only try
		o.changed.Wait()
	}
	o.waiting--
	o.writing = true
	o.mu.Unlock()
	able()
	o.mu.Lock()
	parked := o.parked
	o.unable, o.parked, o.writing = false, nil, parked != nil
	o.mu.Unlock()
	if parked != nil {
		go parked()
	} else {
		o.Flush()
	}
}

// take returns the bytes to write next. The caller holds mu.
func (o *output) take() []byte {
	o.writing = true
	buf := o.buf
	o.buf, o.spare = o.spare[:0], nil
	o.messages, o.leaving, o.going = 0, o.messages, cap(buf)
	return buf
}

// wrote follows a write of what take gave. The caller holds mu.
func (o *output) wrote(buf []byte, n int, err error) {
	o.traffic.bytesOut.Add(uint64(n)) //nolint:gosec // not negative
	o.leaving, o.going = 0, 0
	if cap(buf) <= maxIdleOutput {
		o.spare = buf[:0]
	}
	o.count()
	if err != nil {
		o.failLocked(err)
	}
	if o.waiting > 0 {
		o.changed.Broadcast()
	}
}

// writeSlowly writes buf from n on, and all that comes meanwhile, at the client's pace. It owns the
// right to write.
func (o *output) writeSlowly(buf []byte, n int) {
	chunk := writeChunk
	_, encrypted := o.conn.Conn.(*tls.Conn)
	if encrypted {
		// A write that runs out of time is the last there, so that all of it
		// must be taken within the time-out.
		chunk = tlsChunk
	}
	for {
		var err error
		for n < len(buf) && err == nil {
			var m int
			_ = o.conn.SetWriteDeadline(time.Now().Add(o.timeout))
			m, err = o.conn.Write(buf[n:min(len(buf), n+chunk)])
			n += m
			if m > 0 && !encrypted && errors.Is(err, os.ErrDeadlineExceeded) {
				err = nil // it takes them, if slowly
			}
		}
		o.mu.Lock()
		o.wrote(buf, n, err)
		if len(o.buf) == 0 || o.err != nil {
			if o.err == nil {
				_ = o.conn.SetWriteDeadline(time.Time{})
			}
			o.writing, o.full = false, false
			if o.waiting > 0 {
				o.changed.Broadcast()
			}
			o.mu.Unlock()
			return
		}
		buf, n = o.take(), 0
		o.mu.Unlock()
	}
}

// end says that no command follows the one before the tag last. Messages never
// end, so they are dropped behind the last reply.
func (o *output) end(last uint64) {
	o.mu.Lock()
	o.ending, o.last = true, last
	o.mu.Unlock()
}

// busy reports whether something waits to be written.
func (o *output) busy() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.writing || len(o.buf) > 0
}

// fail closes the connection; nothing is written any more.
func (o *output) fail(err error) {
	o.mu.Lock()
	o.failLocked(err)
	o.mu.Unlock()
}

func (o *output) failLocked(err error) {
	if o.err == nil {
		o.err = err
	}
	o.buf, o.spare = nil, nil
	o.conn.Drop()
	o.changed.Broadcast()
}

// noDeadline has await wait for as long as it takes.
var noDeadline time.Time

// await waits until ok reports true, the output fails, or the deadline passes. It calls ok with mu held,
// and reports its result.
func (o *output) await(deadline time.Time, ok func() bool) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !deadline.IsZero() {
		t := time.AfterFunc(time.Until(deadline), func() {
			o.mu.Lock()
			o.changed.Broadcast()
			o.mu.Unlock()
		})
		defer t.Stop()
	}
	o.waiting++
	defer func() { o.waiting-- }()
	for !ok() {
		if o.err != nil || !deadline.IsZero() && !time.Now().Before(deadline) {
			return false
		}
		o.changed.Wait()
	}
	return o.err == nil
}

// wake lets every caller of await check its condition again.
func (o *output) wake() {
	o.mu.Lock()
	o.changed.Broadcast()
	o.mu.Unlock()
}

// crowded reports whether so much waits for the client that no more commands
// should be read.
func (o *output) crowded() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.buf) > o.max
}

// trim frees the buffers of an output that has nothing to write.
func (o *output) trim() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.writing && len(o.buf) == 0 && cap(o.buf)+cap(o.spare) > 0 {
		o.buf, o.spare = nil, nil
		o.count()
	}
}
