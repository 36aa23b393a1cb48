package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/proxy"
	"github.com/redoubt-go/redoubt/internal/proxy/budget"
	"github.com/redoubt-go/redoubt/internal/resp"
	"github.com/redoubt-go/redoubt/internal/socket"
)

// A Backend opens raw sessions to the server that keeps the data. Package
// proxy has one for Redis.
type Backend = proxy.Backend

// Options configure a [Server]. Backend and Client, or Pool, must be set; the zero
// value of everything else is its documented default.
type Options struct {
	// Backend keeps the data.
	Backend Backend
	// Client reaches the same server and database as Backend. Commands that
	// wait use it, and its prefix names the keys of all extension commands.
	Client *redoubt.Client

	// Sessions opens a session for a client when the back end is an engine in this
	// process. The goroutine that reads a client then runs its commands too. On Linux
	// one goroutine serves many clients. Backend serves commands that need a
	// connection of their own. Sessions may only ask client for its addresses.
	// Defaults to nil: all commands go through Backend.
	Sessions func(client net.Conn) Session

	// Pool, when set, replaces Backend: each command goes to the server of its key.
	// Extension commands need a pool with the tag {}. Server.Close also closes the Pool.
	Pool *proxy.Pool
	// Prefix begins the names of all keys of extension commands in front of a Pool, as that of
	// Client does otherwise.
	Prefix string
	// Strict closes a client in front of a pool where twemproxy 0.5 does, without a reply:
	// for a command that twemproxy doesn't take, a wrong number of arguments, or an inline
	// command.
	Strict bool

	// Password, when not empty, is the password that clients must give by AUTH or
	// HELLO. Without Password and Users, Listen accepts only loopback addresses and
	// unix sockets.
	Password string
	// Username that goes with Password. Defaults to "default".
	Username string
	// Users are more users, each with rules as for Redis' ACL SETUSER, like
	// "on >secret ~orders:* +@read". The rules apply in order.
	// Without Password there is no default user unless Users has it.
	//
	// An engine checks each command of a script by the rights of the user who runs it. In front of servers
	// the session checks only the declared keys of a script. The script may do all that these servers let
	// Redoubt do.
	Users map[string]string
	// UserFile, when set, is the file that ACL LOAD reads and ACL SAVE writes, on an engine. New does not
	// read it.
	UserFile string
	// TLS, when set, is spoken on every TCP listener.
	TLS *tls.Config

	// Limits bound a single command. Defaults to the limits of package resp.
	Limits resp.Limits
	// MaxClients is how many clients may be connected. Another one is refused
	// with Redis' error. Defaults to 10,000.
	MaxClients int
	// MaxPipeline bounds the commands of one client in flight. At the limit the
	// server reads no more from the client. The limit is 16 until replies show their
	// size. For large replies it is the number that makes 4 MiB, or MaxOutput if that
	// is less. Defaults to 1,024.
	MaxPipeline int
	// MaxOutput bounds the bytes that wait for one client. At the limit the server
	// reads no more commands from the client. Replies to commands in flight still
	// come, however large, and wait too. A subscriber for which more bytes of messages
	// wait is closed. Defaults to 64 MiB.
	MaxOutput int
	// Budget bounds the memory of all clients together: unfinished commands, transactions,
	// replies that are being made, and replies and messages that wait to be sent. Several servers
	// and pools may share one Budget. When a client needs room and none is left, the server closes
	// the client that holds the most. If that is the client itself, its command is refused and it
	// is closed. Defaults to a Budget of 1 GiB for this server alone.
	Budget *budget.Budget
	// IdleTimeout closes clients that have sent nothing for this long. A client
	// that waits for a reply, messages or MONITOR is not idle. Defaults to never.
	IdleTimeout time.Duration
	// WriteTimeout closes a client that takes none of its replies for this
	// long. Defaults to 30 s.
	WriteTimeout time.Duration

	// Listen opens the sockets of [Server.Listen]. Defaults to [socket.Listen].
	Listen func(ctx context.Context, network, address string) (net.Listener, error)

	// Logger gets the events for an operator. Defaults to none.
	Logger *slog.Logger
}

func (o Options) withDefaults() (Options, error) {
	var errs []error
	switch {
	case o.Pool == nil:
		if o.Backend == nil {
			errs = append(errs, errors.New("server: Backend is nil"))
		}
		if o.Client == nil {
			errs = append(errs, errors.New("server: Client is nil"))
		}
		if o.Prefix != "" {
			errs = append(errs, errors.New("server: Prefix is set, and Pool is nil"))
		}
	case o.Backend != nil, o.Client != nil, o.Sessions != nil:
		errs = append(errs, errors.New("server: Pool is set, and Backend, Client or Sessions too"))
	}
	errs = append(errs, o.Validate())
	standard := func(n *int, standard int) {
		if *n == 0 {
			*n = standard
		}
	}
	standard(&o.MaxClients, 10_000)
	standard(&o.MaxPipeline, 1024)
	standard(&o.MaxOutput, 64<<20)
	if o.WriteTimeout == 0 {
		o.WriteTimeout = 30 * time.Second
	}
	if o.Budget == nil {
		o.Budget = budget.New(0)
	}
	if o.Username == "" {
		o.Username = "default"
	}
	if o.Listen == nil {
		o.Listen = socket.Listen
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	o.Limits = o.Limits.WithDefaults()
	return o, errors.Join(errs...)
}

// Validate returns all faults of the options that it can see before there is a back end.
func (o Options) Validate() error {
	var errs []error
	if o.Username != "" && o.Password == "" {
		errs = append(errs, errors.New("server: Username is set and Password is empty"))
	}
	if _, err := o.parseUsers(); err != nil {
		errs = append(errs, err)
	}
	if err := o.Limits.Validate(); err != nil {
		errs = append(errs, err)
	}
	number := func(name string, n int) {
		if n < 0 {
			errs = append(errs, fmt.Errorf("server: %s is %d; want at least 0", name, n))
		}
	}
	number("MaxClients", o.MaxClients)
	number("MaxPipeline", o.MaxPipeline)
	number("MaxOutput", o.MaxOutput)
	if o.IdleTimeout < 0 || o.WriteTimeout < 0 {
		errs = append(errs, errors.New("server: IdleTimeout and WriteTimeout must not be negative"))
	}
	return errors.Join(errs...)
}
