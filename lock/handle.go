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

// A Handle is a lease that another process can resume by [Mutex.Resume]: the result of
// [Lease.HandOver] or of a [Request]. MarshalText and encoding/json write it as text
// without blanks. Anybody with the Handle has the lock: treat it as a secret.
//
// A lock that was acquired by LOCK.ACQUIRE is resumed by its name and id; Token and TTL
// may be 0.
type Handle struct {
	// Name is the lock's name, and ID names the acquisition.
	Name, ID string
	// Token is the fencing token; 0 if it is unknown.
	Token int64
	// TTL is the time that the lease had left when it was handed over or acquired: the
	// other process must resume it within that time.
	TTL time.Duration
}

// String returns the name and the token, without the id.
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

// UnmarshalText reads the text of MarshalText.
func (h *Handle) UnmarshalText(text []byte) error {
	parts := strings.Split(string(text), ".")
	if len(parts) != 5 || parts[0] != handleVersion {
		return fmt.Errorf("lock: this is no handle: want %s and four more parts, separated by dots", handleVersion)
	}
	name, err1 := handleEncoding.DecodeString(parts[1])
	id, err2 := handleEncoding.DecodeString(parts[2])
	fence, err3 := strconv.ParseInt(parts[3], 10, 64)
	us, err4 := strconv.ParseInt(parts[4], 10, 64)
	if us < 0 || us > MaxTTL.Microseconds() {
		err4 = fmt.Errorf("ttl is %d µs; want 0 to %d", us, MaxTTL.Microseconds())
	}
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return fmt.Errorf("lock: this is no handle: %w", err)
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

// HandOver gives the lease to the process that resumes the handle by [Mutex.Resume]
// before the lease runs out. Here the lease ends now, with [ErrHandedOver], also for
// callers that entered it by [Lease.Enter]. It is not renewed any more, and Release does
// nothing. The lock stays held. If nobody resumes the lease, it runs out. It sends
// nothing.
//
// The error matches [ErrNotHeld] when the lease has ended. Only the lease of a [Mutex]
// can be handed over.
func (l *Lease) HandOver() (Handle, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.check(); err != nil {
		return Handle{}, notHeld(err)
	}
	h := l.parts[0]
	switch h.kind.(type) {
	case exclusive, fair:
	default:
		return Handle{}, errors.New("lock: only the lease of a Mutex can be handed over")
	}
	if len(l.parts) > 1 {
		return Handle{}, errors.New("lock: a lease on several names can't be handed over")
	}
	h.released = true // Release has nothing to do
	l.end(ErrHandedOver)
	return Handle{Name: h.name, ID: h.id, Token: h.fence, TTL: max(time.Until(h.deadline), 0)}, nil
}

// Resume continues a lease that this or another process handed over. The lease lasts for
// the TTL of this Mutex from now on, and is renewed as every other one. Only one process
// may resume a handle: two that do so both hold the lock.
//
// The error matches [ErrNotHeld] when the lease has ended: it ran out, was released or
// was taken away, and another client may hold the lock. After another error Resume may
// be called again. One round trip.
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
		return nil, fmt.Errorf("%w: the lease ended before it was resumed", ErrNotHeld)
	}
	return m.newLease(ctx, t, h.ID, sent, wire.Attempt{Token: token, TTL: ttl})
}
