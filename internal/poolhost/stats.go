package poolhost

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"strconv"
	"sync"
	"time"
)

// A statsServer tells twemproxy's statistics of all pools of a Host.
type statsServer struct {
	listener net.Listener
	host     *Host
	interval time.Duration
	source   string
	started  time.Time
	telling  sync.WaitGroup

	mu   sync.Mutex
	last []byte
	made time.Time
}

// ListenStats tells twemproxy's statistics of all pools on a TCP address, until Close: each
// connection gets one JSON document, which is at most interval old, and is closed. An error matches
// [ErrListen].
func (h *Host) ListenStats(address string, interval time.Duration) error {
	s := &statsServer{host: h, interval: interval, started: time.Now()}
	s.source, _ = os.Hostname()
	var err error
	if s.listener, err = h.opts.Listen(context.Background(), "tcp", address); err != nil {
		return failure(ErrListen, err)
	}
	s.telling.Go(s.serve)
	h.stats = s
	return nil
}

func (s *statsServer) close() {
	_ = s.listener.Close()
	s.telling.Wait()
}

func (s *statsServer) serve() {
	for {
		conn, err := s.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // too many open files, most likely: it passes
			s.host.log.Error("accept failed on the stats port", slog.Any("error", err))
			time.Sleep(100 * time.Millisecond)
			continue
		}
		s.telling.Go(func() { s.tell(conn) })
	}
}

// statsPatience is how long a client may take to read the document.
const statsPatience = time.Second

func (s *statsServer) tell(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(statsPatience))
	if _, err := conn.Write(s.document()); err != nil {
		return
	}
	// Closing a connection with unread input resets it, and the client could lose the document.
	if c, ok := conn.(*net.TCPConn); ok && c.CloseWrite() == nil {
		_, _ = io.Copy(io.Discard, conn)
	}
}

// document returns statistics that are not older than the interval.
func (s *statsServer) document() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := time.Now(); s.last == nil || now.Sub(s.made) >= s.interval {
		s.last, s.made = s.make(now), now
	}
	return s.last
}

// make returns a document like that of nutcracker 0.5.0: the same names in the same order.
func (s *statsServer) make(now time.Time) []byte {
	type pool struct {
		name string
		poolCounters
	}
	var pools []pool
	total, current := uint64(0), 0
	for _, p := range s.host.current() {
		c := p.front.counters()
		pools = append(pools, pool{p.name, c})
		total, current = total+1+c.accepted, current+1+c.clients // 1: the listener
		for _, n := range c.servers {
			sum, up := n.total()
			total += sum.Connects + n.borrowed
			current += up + n.lent + n.kept
		}
	}
	o := openObject(nil)
	o.text("service", "redoubt")
	o.text("source", s.source)
	o.text("version", s.host.opts.Version)
	o.number("uptime", uint64(now.Sub(s.started)/time.Second))
	o.number("timestamp", uint64(now.Unix())) //nolint:gosec // positive
	o.number("total_connections", total)
	o.number("curr_connections", uint64(current)) //nolint:gosec // positive
	for _, p := range pools {
		o.object(p.name, p.appendTo)
	}
	return append(o.end(), '\n')
}

func (c *poolCounters) appendTo(o *object) {
	ejects, errs := uint64(0), c.errors
	for _, n := range c.servers {
		sum, _ := n.total()
		ejects += n.ejections
		errs += sum.TimedOut + sum.Lost
	}
	o.number("client_eof", c.eofs)
	o.number("client_err", c.faults)
	o.number("client_connections", uint64(c.clients)) //nolint:gosec // positive
	o.number("server_ejects", ejects)
	o.number("forward_error", errs)
	o.number("fragments", c.fragments)
	for _, n := range c.servers {
		o.object(n.name, n.appendTo)
	}
}

func (s *serverCounters) appendTo(o *object) {
	sum, up := s.total()
	ejectedAt := uint64(0)
	if !s.ejectedAt.IsZero() {
		ejectedAt = uint64(s.ejectedAt.UnixMicro()) //nolint:gosec // positive
	}
	o.number("server_eof", sum.EOFs)
	o.number("server_err", sum.Failures+sum.Losses-sum.EOFs)
	o.number("server_timedout", sum.TimedOut)
	o.number("server_connections", uint64(up+s.lent+s.kept)) //nolint:gosec // positive
	o.number("server_ejected_at", ejectedAt)
	o.number("requests", sum.Requests)
	o.number("request_bytes", sum.RequestBytes)
	o.number("responses", sum.Responses)
	o.number("response_bytes", sum.ResponseBytes)
	o.number("in_queue", uint64(sum.Queued))               //nolint:gosec // not negative
	o.number("in_queue_bytes", uint64(sum.Pending))        //nolint:gosec // not negative
	o.number("out_queue", uint64(sum.InFlight))            //nolint:gosec // not negative
	o.number("out_queue_bytes", uint64(sum.InFlightBytes)) //nolint:gosec // not negative
}

// An object writes a JSON object whose members keep their order. encoding/json keeps it for structs
// only.
type object struct {
	buf  []byte
	some bool // it has members
}

func openObject(buf []byte) object { return object{buf: append(buf, '{')} }

func (o *object) end() []byte { return append(o.buf, '}') }

func (o *object) key(name string) {
	if o.some {
		o.buf = append(o.buf, ", "...)
	}
	o.some = true
	o.quote(name)
	o.buf = append(o.buf, ':')
}

func (o *object) quote(s string) {
	quoted, _ := json.Marshal(s) // a string has no error
	o.buf = append(o.buf, quoted...)
}

func (o *object) text(name, value string) {
	o.key(name)
	o.quote(value)
}

func (o *object) number(name string, value uint64) {
	o.key(name)
	o.buf = strconv.AppendUint(o.buf, value, 10)
}

func (o *object) object(name string, members func(o *object)) {
	o.key(name)
	inner := openObject(append(o.buf, ' '))
	members(&inner)
	o.buf = inner.end()
}
