package server

import (
	"context"
	"errors"
	"math/big"
	"slices"
	"strings"
	"time"

	"github.com/redoubt-go/redoubt/internal/proxy"
	"github.com/redoubt-go/redoubt/internal/resp"
)

// An asker is a ReplyHandler that waits for one reply.
type asker struct {
	answer chan answer
}

// An answer is a reply, or a fault in the place of one.
type answer struct {
	raw   []byte
	fault *proxy.Fault // nil: it is the server's
}

func newAsker() *asker { return &asker{make(chan answer, 1)} }

// Reply implements proxy.ReplyHandler.
func (a *asker) Reply(_ uint64, raw []byte) bool {
	a.answer <- answer{raw: slices.Clone(raw)}
	return false
}

// Fail implements proxy.Failer.
func (a *asker) Fail(_ uint64, f *proxy.Fault) bool {
	a.answer <- answer{f.Reply(), f}
	return false
}

// Flush implements proxy.ReplyHandler.
func (a *asker) Flush() {}

// ask runs one command on the connection that all share.
func (s *Server) ask(ctx context.Context, p resp.Protocol, args ...string) (any, error) {
	u, err := s.target.upstream(p)
	if err != nil {
		return nil, err
	}
	return askOn(ctx, u, args...)
}

// askOn returns a [resp.Error] only for an error of the back end itself.
func askOn(ctx context.Context, u *proxy.Upstream, args ...string) (any, error) {
	if err := u.Ready(ctx); err != nil { // Send would wait on when ctx has ended
		return nil, err
	}
	a := newAsker()
	if err := u.Send(a, 0, 1, resp.AppendCommand(nil, args...)); err != nil {
		return nil, err
	}
	u.Flush()
	select {
	case got := <-a.answer:
		if got.fault != nil {
			return nil, got.fault
		}
		v, _, err := resp.Parse(got.raw)
		if err != nil {
			return nil, err
		}
		if e, ok := v.(resp.Error); ok {
			return nil, e
		}
		return v, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

const identifyTimeout = 2 * time.Second

// identify returns the back end's answer to HELLO, as keys and values in turn:
// clients decide by it what they can use. While the back end does not answer,
// it is its last answer. The first may take as long as connecting may.
func (s *Server) identify(ctx context.Context, p resp.Protocol) ([]any, error) {
	s.identityMu.Lock()
	last := s.identity[p-resp.RESP2]
	s.identityMu.Unlock()
	patience := proxy.DefaultDialTimeout
	if last != nil {
		patience = identifyTimeout
		if u, err := s.target.upstream(p); err == nil && !u.Stats().Up {
			return last, nil
		}
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	v, err := s.ask(ctx, p, "HELLO")
	who, ok := v.([]any)
	if m, isMap := v.(resp.Map); isMap {
		who, ok = m, true
	}
	_, refused := errors.AsType[resp.Error](err)
	switch {
	case err == nil && ok && len(who)%2 == 0:
	case refused:
		who, err = s.identifyByInfo(ctx)
	case err == nil:
		err = errors.New("unexpected answer to HELLO")
	}
	s.identityMu.Lock()
	defer s.identityMu.Unlock()
	if err != nil {
		if last := s.identity[p-resp.RESP2]; last != nil {
			return last, nil
		}
		return nil, err
	}
	s.identity[p-resp.RESP2] = who
	return who, nil
}

// identifyByInfo is for back ends without HELLO.
func (s *Server) identifyByInfo(ctx context.Context) ([]any, error) {
	who := []any{"server", "redis", "version", "", "mode", "standalone", "role", "master", "modules", []any{}}
	v, err := s.ask(ctx, resp.RESP2, "INFO", "server")
	if err != nil {
		if _, refused := errors.AsType[resp.Error](err); refused {
			return who, nil
		}
		return nil, err
	}
	text, _ := v.(string)
	for line := range strings.Lines(text) {
		if version, ok := strings.CutPrefix(line, "redis_version:"); ok {
			who[3] = strings.TrimSpace(version)
		}
		if mode, ok := strings.CutPrefix(line, "redis_mode:"); ok {
			who[5] = strings.TrimSpace(mode)
		}
	}
	return who, nil
}

// appendHello appends the reply to HELLO: the back end's, with what is
// different on this connection.
func appendHello(dst []byte, p resp.Protocol, id uint64, who []any) []byte {
	fields := slices.Clone(who)
	for i := 0; i < len(fields); i += 2 {
		switch fields[i] {
		case "proto":
			fields[i+1] = int64(p)
		case "id":
			fields[i+1] = int64(id) //nolint:gosec // counts clients
		}
	}
	if !slices.Contains(fields, any("proto")) {
		fields = slices.Insert(fields, min(4, len(fields)), any("proto"), any(int64(p)), any("id"), any(int64(id))) //nolint:gosec // as above
	}
	dst = resp.AppendMap(dst, p, len(fields)/2)
	for _, v := range fields {
		dst = appendValue(dst, p, v)
	}
	return dst
}

func appendValue(dst []byte, p resp.Protocol, v any) []byte {
	switch v := v.(type) {
	case int64:
		return resp.AppendInt(dst, v)
	case string:
		return resp.AppendBulk(dst, v)
	case []any:
		dst = resp.AppendArray(dst, len(v))
		for _, e := range v {
			dst = appendValue(dst, p, e)
		}
		return dst
	case resp.Map:
		dst = resp.AppendMap(dst, p, len(v)/2)
		for _, e := range v {
			dst = appendValue(dst, p, e)
		}
		return dst
	case bool:
		return resp.AppendBool(dst, p, v)
	case float64:
		return resp.AppendDouble(dst, p, v)
	case *big.Int:
		return resp.AppendBig(dst, p, v)
	case resp.Error:
		return resp.AppendError(dst, string(v))
	}
	return resp.AppendNull(dst, p)
}

var _ proxy.Failer = (*asker)(nil)
