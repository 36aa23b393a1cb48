package faultnet

import (
	"bytes"
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

const (
	readSize = 32 << 10 // bytes of a packet at most
	queued   = 128      // packets that a direction holds; then its sender blocks
)

// A link is one connection through the proxy. Each direction has two
// goroutines, one that reads and one that waits and writes, so that bytes go
// on being accepted while others are held.
type link struct {
	p              *Proxy
	client, server *net.TCPConn
	frames         frames

	ending sync.Once
	done   chan struct{} // closed when the link is to end
	gone   chan struct{} // closed when its goroutines have ended
}

// A packet is what the reader of a direction hands to its writer.
type packet struct {
	data []byte
	due  time.Time
	end  error // behind data: io.EOF, errSwallowed, or what broke the connection
}

var errSwallowed = errors.New("reply swallowed")

// run passes bytes on until the link ends.
func (l *link) run() {
	var wg sync.WaitGroup
	requests, answers := make(chan packet, queued), make(chan packet, queued)
	wg.Go(func() { l.readRequests(requests) })
	wg.Go(func() { l.write(l.server, requests, ToServer) })
	wg.Go(func() { l.readAnswers(answers) })
	wg.Go(func() { l.write(l.client, answers, ToClient) })
	wg.Wait()
	l.close()
	l.p.forget(l)
	close(l.gone)
}

// close ends the link; what was written to either end still arrives there.
func (l *link) close() {
	l.ending.Do(func() {
		close(l.done)
		_ = l.client.Close()
		_ = l.server.Close()
	})
}

// reset ends the link by a TCP reset to both ends.
func (l *link) reset() {
	_ = l.client.SetLinger(0)
	_ = l.server.SetLinger(0)
	l.close()
}

func (l *link) readRequests(to chan<- packet) {
	l.read(l.client, to, func(data []byte) ([]byte, error) {
		return l.frames.request(data, l.p.swallows, l.p.repeats), nil
	})
}

func (l *link) readAnswers(to chan<- packet) { l.read(l.server, to, l.frames.answer) }

// read hands what look returns of src's bytes to a writer, until src or look
// gives an error.
func (l *link) read(src io.Reader, to chan<- packet, look func([]byte) ([]byte, error)) {
	buf := make([]byte, readSize)
	for {
		n, err := src.Read(buf)
		data, swallowed := look(bytes.Clone(buf[:n]))
		if swallowed != nil {
			err = swallowed
		}
		select {
		case to <- packet{data: data, due: l.p.due(), end: err}:
		case <-l.done:
			return
		}
		if err != nil {
			return
		}
	}
}

// write passes packets on to dst when they are due and their direction is
// open.
func (l *link) write(dst *net.TCPConn, from <-chan packet, d Direction) {
	for {
		var p packet
		select {
		case p = <-from:
		case <-l.done:
			return
		}
		if !l.await(p.due, d) {
			return
		}
		// Counted first, so that who has got the bytes sees them counted.
		l.p.countBytes(d, len(p.data))
		n, err := dst.Write(p.data)
		l.p.countBytes(d, n-len(p.data))
		if err == nil {
			err = p.end
		}
		switch {
		case err == nil:
		case errors.Is(err, io.EOF) && d == ToServer:
			_ = dst.CloseWrite() // answers may still come
			return
		case errors.Is(err, io.EOF):
			l.close()
			return
		case errors.Is(err, errSwallowed):
			l.p.countSwallowed() // first, so that a client that sees the end can look
			l.close()
			return
		default:
			l.reset()
			return
		}
	}
}

// await returns true when the time has come and nothing holds the direction,
// and false when the link ends first.
func (l *link) await(due time.Time, d Direction) bool {
	if wait := time.Until(due); wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-l.done:
			return false
		}
	}
	for {
		held, changed := l.p.holds(d)
		if !held {
			return true
		}
		select {
		case <-changed:
		case <-l.done:
			return false
		}
	}
}
