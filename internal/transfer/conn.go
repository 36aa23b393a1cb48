package transfer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/redoubt-go/redoubt/internal/resp"
)

// A Backend opens connections to a server that speaks RESP. Package proxy has one for Redis; an engine is
// one.
type Backend interface {
	// Open connects. The connection speaks RESP2.
	Open(ctx context.Context) (net.Conn, error)
	// Name is the name of the server in errors.
	Name() string
}

// A conn sends commands in pipelines.
type conn struct {
	net  net.Conn
	name string // of the server, for errors
	out  []byte
	n    int // commands in out
	in   []byte
	scan resp.ReplyScanner
	db   int
}

func dial(ctx context.Context, b Backend) (*conn, error) {
	c, err := b.Open(ctx)
	if err != nil {
		return nil, err
	}
	return &conn{net: c, name: b.Name(), db: -1}, nil
}

func (c *conn) close() { _ = c.net.Close() } // every reply that matters has arrived

// add appends a command to the pipeline.
func add[T string | []byte](c *conn, args ...T) {
	c.out = resp.AppendCommand(c.out, args...)
	c.n++
}

// answerWithin is how long a server may be silent while a pipeline waits.
const answerWithin = time.Minute

// flush sends the pipeline and calls each with the replies in order, including error replies. It reads all
// replies even if each returns errors, and returns the first error. It closes the connection when ctx ends.
func (c *conn) flush(ctx context.Context, each func(i int, reply any) error) error {
	stop := context.AfterFunc(ctx, c.close)
	defer stop()
	out, n := c.out, c.n
	c.out, c.n = c.out[:0], 0
	// Read replies while writing commands, so that neither side has to buffer everything.
	written := make(chan error, 1)
	go func() {
		_, err := c.net.Write(out)
		written <- err
	}()
	var failed error
	for i := range n {
		reply, err := c.reply()
		if err != nil {
			c.close()
			<-written //nolint:errcheck // the other error is the cause
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return fmt.Errorf("%s: %w", c.name, err)
		}
		if err := each(i, reply); failed == nil {
			failed = err
		}
	}
	if err := <-written; err != nil { // impossible, because every command was answered
		return fmt.Errorf("%s: %w", c.name, err)
	}
	if cap(c.out) > 16<<20 {
		c.out = nil
	}
	return failed
}

func (c *conn) reply() (any, error) {
	for {
		n, err := c.scan.Next(c.in)
		if err != nil {
			return nil, err
		}
		if n > 0 {
			v, _, err := resp.Parse(c.in[:n])
			c.in = c.in[n:]
			return v, err
		}
		if err := c.read(); err != nil {
			return nil, err
		}
	}
}

// read reads more bytes of the server.
func (c *conn) read() error {
	if len(c.in) == cap(c.in) {
		grown := make([]byte, len(c.in), max(64<<10, 2*len(c.in)))
		copy(grown, c.in)
		c.in = grown
	}
	if err := c.net.SetReadDeadline(time.Now().Add(answerWithin)); err != nil {
		return err
	}
	n, err := c.net.Read(c.in[len(c.in):cap(c.in)])
	c.in = c.in[:len(c.in)+n]
	if n > 0 {
		return nil
	}
	if errors.Is(err, io.EOF) {
		return errors.New("the connection was closed")
	}
	return err
}

// do sends one command and returns its reply. An error reply is an error.
func (c *conn) do(ctx context.Context, args ...string) (reply any, err error) {
	add(c, args...)
	err = c.flush(ctx, func(_ int, r any) error {
		if e, ok := r.(resp.Error); ok {
			return fmt.Errorf("%s: %s: %w", c.name, args[0], e)
		}
		reply = r
		return nil
	})
	return reply, err
}
