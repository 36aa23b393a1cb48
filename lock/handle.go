package lock

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redoubt-go/redoubt"
	wire "github.com/redoubt-go/redoubt/internal/wire/lock"
)

// A Handle is a lease of a [Mutex] on its way to another process, which takes it
// up by [Mutex.Resume], or what was acquired by a [Request]. It is text, without blanks, by MarshalText and by
// encoding/json. Who has it has the lock: treat it as a secret.
//
// A lock that was acquired by LOCK.ACQUIRE is taken up by its name and id; Token
// and TTL may be 0.
type Handle struct {
	// Name and ID say what is held.
	Name, ID string
	// Token is the fencing token; 0 for not known.
	Token int64
	// TTL is how long the lease lasted when it was handed over or acquired: what the other
	// has to take it up.
	TTL time.Duration
}

// String tells the name and the token, not the id.
func (h Handle) String() string { return fmt.Sprintf("lease %d on %q", h.Token, h.Name) }

const handleVersion = "lease1"

var handleEncoding = base64.RawURLEncoding.Strict()

// MarshalText returns h as text of letters, digits, '-', '_' and '.'.
func (h Handle) MarshalText() ([]byte, error) {
	if err := h.check(); err != nil {
		return nil, err
	}
	return fmt.Appendf(nil, "%s.%s.%s.%d.%d", handleVersion, handleEncoding.EncodeToString([]byte(h.Name)),
		handleEncoding.EncodeToString([]byte(h.ID)), h.Token, h.TTL.Microseconds()), nil
}

// UnmarshalText reads what MarshalText made.
func (h *Handle) UnmarshalText(text []byte) error {
	parts := strings.Split(string(text), ".")
	if len(parts) != 5 || parts[0] != handleVersion {
		return fmt.Errorf("lock: no handle: want %s and four more parts with dots between", handleVersion)
	}
	name, err1 := handleEncoding.DecodeString(parts[1])
	id, err2 := handleEncoding.DecodeString(parts[2])
	fence, err3 := strconv.ParseInt(parts[3], 10, 64)
	us, err4 := strconv.ParseInt(parts[4], 10, 64)
	if us < 0 || us > MaxTTL.Microseconds() {
		err4 = fmt.Errorf("ttl is %d µs; want 0 to %d", us, MaxTTL.Microseconds())
	}
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return fmt.Errorf("lock: no handle: %w", err)
	}
	got := Handle{Name: string(name), ID: string(id), Token: fence, TTL: time.Duration(us) * time.Microsecond}
	if err := got.check(); err != nil {
		return err
	}
	*h = got
	return nil
}

func (h Handle) check() error {
	var errs []error
	if len(h.Name) == 0 || len(h.Name) > redoubt.MaxName {
		errs = append(errs, fmt.Errorf("lock: the name of a handle has %d bytes; want 1 to %d", len(h.Name), redoubt.MaxName))
	}
	if len(h.ID) == 0 || len(h.ID) > MaxLabel {
		errs = append(errs, fmt.Errorf("lock: the id of a handle has %d bytes; want 1 to %d", len(h.ID), MaxLabel))
	}
	if h.Token < 0 || h.TTL < 0 || h.TTL > MaxTTL {
		errs = append(errs, fmt.Errorf("lock: token %d and ttl %v of a handle; want 0 or more, and at most %v", h.Token, h.TTL, MaxTTL))
	}
	return errors.Join(errs...)
}

// HandOver gives the lease away, to whoever takes the handle up by
// [Mutex.Resume] before it runs out. It is over here from now on, with
// [ErrHandedOver], also for those who are in it by [Lease.Enter]; it is not
// renewed any more, and Release does nothing. The lock stays held. If nobody
// resumes the lease it runs out; this process may resume it too. It sends
// nothing.
//
// HandOver returns an error that matches [ErrNotHeld] when the lease is over. Only
// the lease of a [Mutex] can be handed over.
func (l *Lease) HandOver() (Handle, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.check(); err != nil {
		return Handle{}, notHeld(err)
	}
	h := l.holds[0]
	switch h.kind.(type) {
	case exclusive, fair:
	default:
		return Handle{}, errors.New("lock: only the lease of a Mutex can be handed over")
	}
	if len(l.holds) > 1 {
		return Handle{}, errors.New("lock: a lease on several names can't be handed over")
	}
	h.released = true // Release has nothing to do
	l.end(ErrHandedOver)
	return Handle{Name: h.name, ID: h.id, Token: h.fence, TTL: max(time.Until(h.deadline), 0)}, nil
}

// Resume takes up a lease that another process handed over, or the same. It
// lasts for the TTL of this Mutex from now on, and is renewed as every other.
// A handle is for one: two that resume it both hold the lock.
//
// It returns an error that matches [ErrNotHeld] when the lease is over: it ran
// out, or was released or taken away; another may hold the lock. After another
// error Resume may be called again. One round trip.
func (m *Mutex) Resume(ctx context.Context, h Handle) (*Lease, error) {
	if err := h.check(); err != nil {
		return nil, err
	}
	t, err := m.target(h.Name)
	if err != nil {
		return nil, err
	}
	sent := time.Now()
	held, token, ttl, err := wire.ReadResume(m.client.Do(ctx, t.kind.extend(t.keys, h.ID, m.opts.TTL)))
	if err != nil {
		return nil, err
	}
	if !held || h.Token != 0 && token != h.Token {
		return nil, fmt.Errorf("%w: it was over before it was resumed", ErrNotHeld)
	}
	return m.newLease(ctx, t, h.ID, sent, wire.Attempt{Token: token, TTL: ttl})
}
