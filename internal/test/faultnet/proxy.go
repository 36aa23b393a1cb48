package faultnet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt/internal/test/ports"
)

// A Direction is one way through a proxy, or both.
type Direction uint8

const (
	// ToServer is the way of requests.
	ToServer Direction = 1 << iota
	// ToClient is the way of answers.
	ToClient
	// Both is both ways.
	Both = ToServer | ToClient
)

// A Proxy passes TCP connections on to one server and can disturb them. Make
// it with [New].
type Proxy struct {
	tb       testing.TB // nil if Start made it
	upstream string
	addr     string
	port     *ports.Port

	mu struct {
		sync.Mutex
		listener  net.Listener  // nil while connections are refused
		accepting chan struct{} // closed when the loop on listener has ended
		closed    bool
		links     map[*link]struct{}

		delay   time.Duration
		held    Direction
		changed chan struct{} // closed and replaced when held changes
		orders  [][]string    // replies to swallow: names of commands, empty for any
		copies  [][]string    // requests to repeat, likewise
		stats   Stats
	}
}

// Stats count what went through a proxy.
type Stats struct {
	Accepted  int   // connections since New
	Open      int   // connections now
	ToServer  int64 // bytes handed to the server
	ToClient  int64 // bytes handed to clients
	Swallowed int   // replies dropped by SwallowNextReply
	Repeated  int   // requests sent twice by RepeatNextRequest
}

// New starts a proxy to the server at upstream, a TCP address as host:port. It
// passes everything on unchanged until told otherwise, and is closed when tb
// ends. While the server accepts no connection, a client's is reset.
func New(tb testing.TB, upstream string) *Proxy {
	tb.Helper()
	p, err := Start(upstream)
	if err != nil {
		tb.Fatal(err)
	}
	p.tb = tb
	tb.Cleanup(p.Close)
	return p
}

// Start is [New] for programs that are no tests. The caller closes the proxy.
func Start(upstream string) (*Proxy, error) {
	p := &Proxy{upstream: upstream}
	p.mu.links = map[*link]struct{}{}
	p.mu.changed = make(chan struct{})
	for range 100 {
		port, err := ports.Reserve() // until Close, so that nothing takes it between Refuse and Accept
		if err != nil {
			return nil, fmt.Errorf("faultnet: %w", err)
		}
		p.addr, p.port = ports.Addr(port.Number), port
		if p.listen() == nil {
			return p, nil
		}
		port.Release()
	}
	return nil, errors.New("faultnet: found no free port")
}

// Addr returns the address that clients connect to, as host:port. It stays the
// same until Close.
func (p *Proxy) Addr() string { return p.addr }

// Delay holds every byte back for d in each direction, from now on. A round
// trip takes 2d longer. Zero ends it.
func (p *Proxy) Delay(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.delay = d
}

// Blackhole lets no more bytes through in the given direction: they are
// accepted and held, up to 1024 writes a connection, after which the sender
// blocks. To the ends it looks like a lost network: nothing is answered, no
// connection breaks, and new ones are still made. That a client or server
// closes a connection is held too.
func (p *Proxy) Blackhole(d Direction) { p.hold(func(held Direction) Direction { return held | d }) }

// Heal ends a Blackhole in both directions. Held bytes arrive now, in order,
// as after a TCP connection's retransmission. Call Cut before to lose them.
func (p *Proxy) Heal() { p.hold(func(Direction) Direction { return 0 }) }

func (p *Proxy) hold(change func(Direction) Direction) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.held = change(p.mu.held)
	close(p.mu.changed)
	p.mu.changed = make(chan struct{})
}

// Cut breaks every present connection by a TCP reset to both ends and drops
// what it held of them. They are gone when it returns. New connections are
// made as before; one that the client has only just opened, and that has
// carried no byte yet, may count as new.
func (p *Proxy) Cut() {
	p.mu.Lock()
	links := make([]*link, 0, len(p.mu.links))
	for l := range p.mu.links {
		links = append(links, l)
	}
	p.mu.Unlock()
	for _, l := range links {
		l.reset()
	}
	for _, l := range links {
		<-l.gone
	}
}

// Refuse makes the kernel refuse new connections, as when no process listens.
// Present ones go on.
func (p *Proxy) Refuse() {
	p.mu.Lock()
	listener, accepting := p.mu.listener, p.mu.accepting
	p.mu.listener = nil
	p.mu.Unlock()
	if listener != nil {
		_ = listener.Close()
		<-accepting
	}
}

// Accept ends a Refuse of a proxy that [New] made.
func (p *Proxy) Accept() {
	p.tb.Helper()
	if err := p.listen(); err != nil {
		p.tb.Fatalf("faultnet: %v", err)
	}
}

// SwallowNextReply loses one reply: the next request that arrives is passed on
// to the server, the server's answer to it is dropped, and then the connection
// is closed. Replies to requests before it on the same connection pass; what
// came after it there may or may not have been run. Calls add up, one reply
// each; Stats tell how many have been swallowed.
//
// With names, only requests of these commands count: "GET", or with its first
// argument, "EVALSHA 9d1d…", which tells one script from another. Without, any
// does except AUTH, CLIENT, HELLO, PING, READONLY and SELECT, which clients
// send by themselves when they connect. Connections that listen to published
// messages or that don't speak RESP in the clear are left alone.
func (p *Proxy) SwallowNextReply(names ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.orders = append(p.mu.orders, names)
}

// RepeatNextRequest sends the next request twice, one behind the other, and passes only the first of its
// two answers on. names are as for SwallowNextReply. Calls add up, one request each.
func (p *Proxy) RepeatNextRequest(names ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.copies = append(p.mu.copies, names)
}

// swallows reports whether the reply to the command is to be swallowed, and
// takes that order off the list.
func (p *Proxy) swallows(args [][]byte) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return takeOff(&p.mu.orders, args)
}

// repeats reports whether the command is to be sent twice, and takes that order off the list.
func (p *Proxy) repeats(args [][]byte) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !takeOff(&p.mu.copies, args) {
		return false
	}
	p.mu.stats.Repeated++
	return true
}

// takeOff takes an order for a command off the list, and reports whether there was one.
func takeOff(orders *[][]string, args [][]byte) bool {
	command, withFirst := string(args[0]), string(bytes.Join(args[:min(2, len(args))], []byte(" ")))
	i := slices.IndexFunc(*orders, func(names []string) bool {
		if len(names) == 0 {
			return !slices.Contains(setUp, strings.ToUpper(command))
		}
		return slices.ContainsFunc(names, func(n string) bool { return strings.EqualFold(n, command) || strings.EqualFold(n, withFirst) })
	})
	if i < 0 {
		return false
	}
	*orders = slices.Delete(*orders, i, i+1)
	return true
}

// Stats returns the counters.
func (p *Proxy) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.mu.stats
	s.Open = len(p.mu.links)
	return s
}

// Close refuses new connections, cuts the present ones, and returns when all
// goroutines of the proxy have ended. It may be called more than once.
func (p *Proxy) Close() {
	p.mu.Lock()
	p.mu.closed = true
	p.mu.Unlock()
	p.Refuse()
	p.Cut()
	p.port.Release()
}

func (p *Proxy) listen() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.listener != nil || p.mu.closed {
		return nil
	}
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", p.addr)
	// A connection of another test may go out from the port for a while.
	for end := time.Now().Add(20 * time.Second); errors.Is(err, syscall.EADDRINUSE) && time.Now().Before(end); {
		<-time.After(10 * time.Millisecond)
		listener, err = (&net.ListenConfig{}).Listen(context.Background(), "tcp", p.addr)
	}
	if err != nil {
		return err
	}
	p.mu.listener, p.mu.accepting = listener, make(chan struct{})
	go p.acceptAll(listener, p.mu.accepting)
	return nil
}

// acceptAll ends when the listener is closed.
func (p *Proxy) acceptAll(listener net.Listener, ended chan<- struct{}) {
	defer close(ended)
	for {
		client, err := listener.Accept()
		if err != nil {
			return
		}
		p.connect(client.(*net.TCPConn))
	}
}

// connect starts a link between a new client and the server, or resets the
// client when the server does not accept.
func (p *Proxy) connect(client *net.TCPConn) {
	server, err := (&net.Dialer{Timeout: 5 * time.Second}).DialContext(context.Background(), "tcp", p.upstream)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.stats.Accepted++
	if err != nil {
		_ = client.SetLinger(0)
		_ = client.Close()
		return
	}
	l := &link{p: p, client: client, server: server.(*net.TCPConn), done: make(chan struct{}), gone: make(chan struct{})}
	p.mu.links[l] = struct{}{}
	go l.run()
}

func (p *Proxy) forget(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.mu.links, l)
}

// due returns when bytes that arrive now are to be passed on.
func (p *Proxy) due() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return time.Now().Add(p.mu.delay)
}

// holds reports whether a direction is held, and gives a channel that is
// closed when that changes.
func (p *Proxy) holds(d Direction) (bool, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.held&d != 0, p.mu.changed
}

func (p *Proxy) countSwallowed() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.stats.Swallowed++
}

func (p *Proxy) countBytes(d Direction, n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if d == ToServer {
		p.mu.stats.ToServer += int64(n)
	} else {
		p.mu.stats.ToClient += int64(n)
	}
}
