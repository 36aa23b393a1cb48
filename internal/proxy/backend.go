package proxy

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/redoubt-go/redoubt/internal/resp"
	"github.com/redoubt-go/redoubt/internal/scheme"
)

// A Backend opens raw sessions to a server that speaks RESP.
type Backend interface {
	// Open connects. The session is authenticated, its database selected, and
	// it speaks RESP2. The caller closes it.
	Open(ctx context.Context) (net.Conn, error)
	// Name is how errors call the back end, like 127.0.0.1:6379.
	Name() string
	// Database is the number of the database that sessions begin in.
	Database() int
}

// Redis is a [Backend] for one Redis or Valkey server.
type Redis struct {
	// Network is tcp or unix. Defaults to tcp.
	Network string
	// Addr is host:port, or the path of a socket.
	Addr string
	// Label is how errors call the server. Defaults to Addr.
	Label string
	// Username and Password are sent by AUTH when Password is not empty. An
	// empty Username means the default user.
	Username, Password string
	// DB is the database that sessions use.
	DB int
	// TLS, when set, encrypts the connection.
	TLS *tls.Config
	// DialTimeout bounds connecting and authenticating. Defaults to 5 s.
	DialTimeout time.Duration
}

// DefaultDialTimeout bounds how long a [Redis] takes to connect.
const DefaultDialTimeout = 5 * time.Second

var errMalformedURL = fmt.Errorf("proxy: %w", scheme.ErrMalformed)

// door says which URLs [ParseURL] takes.
var door = scheme.Door{
	Name: "ParseURL", Takes: scheme.One,
	Sentinel: "redoubt.Open takes it",
	Cluster:  "redoubt.Open takes it",
	Embedded: "redoubt.Open takes it, and an engine.Engine is a back end itself",
}

// ParseURL returns the back end that a URL names:
//
//	redis://[[user]:password@]host[:port][/db]
//	rediss://…                                   over TLS
//	unix://[[user]:password@]/path[?db=n]
//
// The port defaults to 6379, the database to 0. No error shows the user or the
// password.
func ParseURL(s string) (*Redis, error) {
	if _, err := door.Check(s); err != nil {
		return nil, fmt.Errorf("proxy: %w", err)
	}
	u, err := url.Parse(s)
	if err != nil || u.Opaque != "" || strings.Contains(u.Path, "@") && u.Scheme != "unix" || strings.Contains(u.RawQuery, "@") || u.Fragment != "" {
		return nil, errMalformedURL
	}
	r := &Redis{Username: u.User.Username()}
	r.Password, _ = u.User.Password()
	db := u.Query().Get("db")
	switch u.Scheme {
	case "redis", "rediss":
		r.Network = "tcp"
		host, port := u.Hostname(), u.Port()
		if host == "" {
			host = "127.0.0.1"
		}
		if port == "" {
			port = "6379"
		}
		r.Addr = net.JoinHostPort(host, port)
		if path := strings.Trim(u.Path, "/"); path != "" {
			db = path
		}
		if u.Scheme == "rediss" {
			r.TLS = &tls.Config{ServerName: host, MinVersion: tls.VersionTLS12}
		}
	case "unix":
		r.Network, r.Addr = "unix", u.Path
		if r.Addr == "" {
			return nil, errors.New("proxy: the URL of the back end names no socket; want unix:///path")
		}
	}
	if db != "" {
		n, err := strconv.Atoi(db)
		if err != nil || n < 0 {
			return nil, fmt.Errorf("proxy: back end %s: database is %q; want a number from 0", r.Addr, db)
		}
		r.DB = n
	}
	return r, nil
}

// Name implements [Backend].
func (r *Redis) Name() string {
	if r.Label != "" {
		return r.Label
	}
	return r.Addr
}

// Database implements [Backend].
func (r *Redis) Database() int { return r.DB }

// deadAfter is how long sent bytes may stay unacknowledged, and a silent connection
// unproven, before the server counts as gone with its machine or network. The
// kernel of a busy server still acknowledges. A server that takes no more bytes
// for this long counts as gone too.
const deadAfter = 30 * time.Second

// dialer detects a dead server. An idle connection is probed by keep-alive. While bytes wait for an
// acknowledgement TCP doesn't probe, so limitUnacknowledged bounds that time.
var dialer = net.Dialer{
	KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: deadAfter / 2, Interval: deadAfter / 6, Count: 3},
	Control:         limitUnacknowledged,
}

// Open implements [Backend]. It costs a round trip when there is a password or
// a database to select.
func (r *Redis) Open(ctx context.Context) (net.Conn, error) {
	timeout := r.DialTimeout
	if timeout == 0 {
		timeout = DefaultDialTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	network := r.Network
	if network == "" {
		network = "tcp"
	}
	conn, err := dialer.DialContext(ctx, network, r.Addr)
	if err != nil {
		return nil, err
	}
	if r.TLS != nil {
		tc := tls.Client(conn, r.TLS)
		if err := tc.HandshakeContext(ctx); err != nil {
			_ = conn.Close()
			return nil, err
		}
		conn = tc
	}
	var setup []byte
	n := 0
	if r.Password != "" {
		n++
		if r.Username != "" {
			setup = resp.AppendCommand(setup, "AUTH", r.Username, r.Password)
		} else {
			setup = resp.AppendCommand(setup, "AUTH", r.Password)
		}
	}
	if r.DB != 0 {
		n++
		setup = resp.AppendCommand(setup, "SELECT", strconv.Itoa(r.DB))
	}
	replies, err := exchange(ctx, conn, setup, n)
	if err == nil {
		for _, v := range replies {
			if e, ok := v.(resp.Error); ok {
				// A server without AUTH repeats its arguments.
				text, _, _ := strings.Cut(string(e), ", with args beginning with")
				err = resp.Error(text)
				break
			}
		}
	}
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	return conn, nil
}

// AskOnce opens a session for one command that concerns no database, and
// returns its reply. An error reply is a [resp.Error]. AskOnce selects no
// database, because a server that a script keeps busy refuses SELECT.
func AskOnce(ctx context.Context, b Backend, command []byte) (any, error) {
	if r, ok := b.(*Redis); ok && r.DB != 0 {
		bare := *r
		bare.DB = 0
		b = &bare
	}
	conn, err := b.Open(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	replies, err := exchange(ctx, conn, command, 1)
	if err != nil {
		return nil, err
	}
	return replies[0], nil
}

// exchange sends n commands on a connection that nobody else uses yet, and
// returns their replies.
func exchange(ctx context.Context, conn net.Conn, commands []byte, n int) ([]any, error) {
	if n == 0 {
		return nil, nil
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	fail := func(err error) ([]any, error) {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, err
	}
	if _, err := conn.Write(commands); err != nil {
		return fail(err)
	}
	var scanner resp.ReplyScanner
	in := bufio.NewReader(conn)
	var buf []byte
	replies := make([]any, 0, n)
	for len(replies) < n {
		end, err := scanner.Next(buf)
		if err != nil {
			return fail(err)
		}
		if end > 0 {
			v, _, err := resp.Parse(buf[:end])
			if err != nil {
				return fail(err)
			}
			replies = append(replies, v)
			buf = buf[end:]
			continue
		}
		if _, err := in.Peek(1); err != nil {
			return fail(err)
		}
		chunk, _ := in.Peek(in.Buffered())
		buf = append(buf, chunk...)
		_, _ = in.Discard(len(chunk))
	}
	if len(buf) > 0 || in.Buffered() > 0 {
		return fail(errors.New("proxy: the back end sent more than it was asked for"))
	}
	if !stop() {
		return fail(ctx.Err())
	}
	return replies, nil
}
