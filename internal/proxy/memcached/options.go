package memcached

import (
	"crypto/tls"
	"errors"
	"fmt"
	"time"

	"github.com/redoubt-go/redoubt/internal/proxy/budget"
	"github.com/redoubt-go/redoubt/internal/proxy/outage"
	"github.com/redoubt-go/redoubt/internal/proxy/ring"
)

// Options configure a [Pool]. Servers must be set; the zero value of everything
// else is its documented default.
type Options struct {
	// Name is how errors call the pool.
	Name string
	// Servers are the servers of the keys, in any order: at least one. Their names differ.
	Servers []Server
	// Hash, Distribution and Tag are as in [ring.Options].
	Hash         ring.Hash
	Distribution ring.Distribution
	Tag          string

	// Timeout is how long a server may take to answer. Defaults to 5 s; negative:
	// for ever.
	Timeout time.Duration
	// DialTimeout is how long a server may take to accept a connection and to tell
	// its version on it. Defaults to 5 s.
	DialTimeout time.Duration

	// FailureLimit, when not 0, ejects a server after so many failures without an answer
	// in between. Its keys then go to the other servers until it returns. By default they
	// stay, and their commands fail at once while the server is down.
	//
	// An ejected server may return with old values of keys that have changed elsewhere.
	FailureLimit int
	// RetryTimeout is how long a server stays ejected before it is tried again.
	// Defaults to 30 s.
	RetryTimeout time.Duration
	// OnChange, when set, is called when a server is lost or back, and when it leaves the ring or
	// returns. It must not block.
	OnChange func(outage.Change)

	// MaxClients is how many clients may be connected; more are refused. Defaults to
	// no limit.
	MaxClients int
	// MaxInFlight bounds the commands of one client that wait for answers. At the limit
	// the pool reads no more from the client. Defaults to 1,024.
	MaxInFlight int
	// MaxClientBytes bounds the bytes of answers that wait for one client, because it
	// doesn't read them or because earlier answers must come first. Beyond half of it the
	// pool reads no more commands from the client. An answer beyond it becomes an error.
	// Defaults to 64 MiB.
	MaxClientBytes int
	// MaxPending is how many bytes may wait to be sent to a server before its clients
	// wait. Defaults to 16 MiB.
	MaxPending int
	// MaxLine is the greatest length of a line of a retrieval. It is at least 2,048 bytes, the
	// length that memcached takes for every command. Defaults to 1 MiB.
	MaxLine int
	// MaxValue is the greatest length of a value that clients may send. Defaults to 1 GiB. The
	// pool asks each server for its own limit, and the lower one counts. A server's limit is its
	// option -I, by default 1 MiB.
	MaxValue int
	// Budget bounds the memory of all clients together: unfinished commands, and answers that
	// wait. Several pools and servers may share one. A command without room is refused. When a
	// client with less needs room, the client with the most is disconnected. Defaults to a Budget
	// of 1 GiB for this pool alone.
	Budget *budget.Budget
	// IdleTimeout is how long a client may send nothing before it is disconnected.
	// Defaults to no limit.
	IdleTimeout time.Duration
	// SlowClient is how long a client may take to accept a megabyte of answers before
	// it is disconnected. Defaults to 30 s.
	SlowClient time.Duration
}

// A Server is one server of a [Pool].
type Server struct {
	// Server is its name and weight in the ring.
	ring.Server
	// Network is tcp or unix. Defaults to tcp.
	Network string
	// Addr is host:port, or the path of a socket.
	Addr string
	// TLS, when set, encrypts the connection. Its ServerName must be set.
	TLS *tls.Config
}

func (o Options) withDefaults() (Options, error) {
	errs := o.faults()
	o.Servers = append([]Server(nil), o.Servers...)
	for i, s := range o.Servers {
		if s.Network == "" {
			o.Servers[i].Network = "tcp"
		}
	}
	for d, by := range map[*time.Duration]time.Duration{
		&o.Timeout: 5 * time.Second, &o.DialTimeout: 5 * time.Second,
		&o.RetryTimeout: 30 * time.Second, &o.SlowClient: 30 * time.Second,
	} {
		if *d == 0 {
			*d = by
		}
	}
	for n, by := range map[*int]int{
		&o.MaxInFlight: 1024, &o.MaxClientBytes: 64 << 20, &o.MaxPending: 16 << 20, &o.MaxLine: 1 << 20, &o.MaxValue: 1 << 30,
	} {
		if *n == 0 {
			*n = by
		}
	}
	if o.Budget == nil {
		o.Budget = budget.New(0)
	}
	return o, errors.Join(errs...)
}

// faults returns all that is wrong with what was given.
func (o Options) faults() (errs []error) {
	fault := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("memcached: pool %q: "+format, append([]any{o.Name}, args...)...))
	}
	for _, s := range o.Servers {
		if s.Addr == "" {
			fault("server %q has no Addr", s.Name)
		}
		if s.Network != "" && s.Network != "tcp" && s.Network != "unix" {
			fault("server %q has the Network %q, want tcp or unix", s.Name, s.Network)
		}
	}
	for _, d := range []struct {
		name string
		d    time.Duration
	}{{"DialTimeout", o.DialTimeout}, {"RetryTimeout", o.RetryTimeout}, {"SlowClient", o.SlowClient}, {"IdleTimeout", o.IdleTimeout}} {
		if d.d < 0 {
			fault("%s is %v, must not be negative", d.name, d.d)
		}
	}
	for _, n := range []struct {
		name string
		n    int
	}{
		{"FailureLimit", o.FailureLimit}, {"MaxClients", o.MaxClients}, {"MaxInFlight", o.MaxInFlight},
		{"MaxClientBytes", o.MaxClientBytes}, {"MaxPending", o.MaxPending}, {"MaxLine", o.MaxLine}, {"MaxValue", o.MaxValue},
	} {
		if n.n < 0 {
			fault("%s is %d, must not be negative", n.name, n.n)
		}
	}
	if o.MaxLine > 0 && o.MaxLine < maxShort {
		fault("MaxLine is %d, the least is %d, which memcached reads of any command", o.MaxLine, maxShort)
	}
	if o.MaxValue > maxBytes {
		fault("MaxValue is %d, the greatest is %d", o.MaxValue, maxBytes)
	}
	return errs
}
