package bloom

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redoubt-go/redoubt"
	wire "github.com/redoubt-go/redoubt/internal/wire/bloom"
)

// open describes the filter unless it exists or made is zero, and makes sure that all its keys are
// made.
func (f *Filter) open(ctx context.Context, made generation) (*state, error) {
	text := ""
	if made.id != "" {
		text = made.text()
	}
	for {
		a, err := f.client.Do(ctx, wire.OpenCmd(f.filter, text, makeTime)).Array()
		if err != nil {
			return nil, err
		}
		if len(a) != 7 {
			return nil, fmt.Errorf("bloom: reply of open.lua has %d elements, want 7", len(a))
		}
		until, _ := a[1].(int64)
		s, err := f.parse(a[2:])
		if err != nil {
			return nil, err
		}
		if !s.ready {
			// The process that makes the filter may still be at work, or dead.
			if err := f.make(ctx, s.current, until, 0); err != nil {
				return nil, err
			}
			if _, err := f.advance(ctx, "ready", s.current.text(), 0); err != nil {
				return nil, err
			}
			continue
		}
		return f.learn(ctx, s)
	}
}

// read reads the state.
func (f *Filter) read(ctx context.Context) (*state, error) {
	a, err := f.client.Do(ctx, redoubt.Cmd{
		Name: "HMGET", Keys: []string{f.filter}, Args: []string{"current", "next", "seal", "ready", "filled"}, Flags: redoubt.ReadOnly,
	}).Array()
	if err != nil {
		return nil, err
	}
	return f.parse(a)
}

// parse reads the fields current, next, seal, ready and filled.
func (f *Filter) parse(a []any) (*state, error) {
	if len(a) != 5 {
		return nil, fmt.Errorf("bloom: %d fields of a filter, want 5", len(a))
	}
	text, ok := a[0].(string)
	if !ok {
		return nil, fmt.Errorf("%w: %q", ErrNotFound, f.name)
	}
	s := &state{ready: a[3] == "1", filled: a[4] == "1"}
	var err error
	if s.current, err = parseGeneration(text); err != nil {
		return nil, err
	}
	if text, ok := a[1].(string); ok {
		next, err := parseGeneration(text)
		if err != nil {
			return nil, err
		}
		s.next = &next
	}
	s.seal, err = redoubt.Reply{Val: a[2]}.Int()
	return s, err
}

// learn keeps s as the known state. First it completes what another process left unfinished.
func (f *Filter) learn(ctx context.Context, s *state) (*state, error) {
	if s.filled && s.next != nil {
		if err := f.replace(ctx, s); err != nil {
			return nil, err
		}
		s = &state{current: *s.next, seal: s.seal, ready: true}
	}
	f.now.Store(s)
	f.asked.Store(time.Now().UnixNano())
	return s, nil
}

// replace makes the next generation the current one. It deletes the old keys first, so that a
// process that does not know of the change finds nothing there and reads the state. If they were
// deleted later, that process would find them and miss items that others add to the new keys.
func (f *Filter) replace(ctx context.Context, s *state) error {
	if err := f.drop(ctx, s.current); err != nil {
		return err
	}
	_, err := f.advance(ctx, "switch", s.next.text(), 0)
	return err
}

func (f *Filter) advance(ctx context.Context, step, who string, alive time.Duration) (bool, error) {
	return wire.ReadAdvanced(f.client.Do(ctx, wire.AdvanceCmd(f.filter, step, who, alive)))
}

// refresh reads the state anew, unless the known state is not old any more: callers that notice a
// change at the same time share one reading.
func (f *Filter) refresh(ctx context.Context, old *state) (*state, error) {
	f.reading.Lock()
	defer f.reading.Unlock()
	if s := f.now.Load(); old != nil && s != old {
		return s, nil
	}
	s, err := f.read(ctx)
	if err != nil {
		return nil, err
	}
	return f.learn(ctx, s)
}

// lookAgain is how often, at most, the state is read because a key is lost.
const lookAgain = time.Second

// refreshNow is refresh for a caller that has found a lost key. A key that is lost for good must
// not cost every call another round trip.
func (f *Filter) refreshNow(ctx context.Context, old *state) (*state, error) {
	if s := f.now.Load(); s != old {
		return s, nil
	}
	if time.Now().UnixNano()-f.asked.Load() < int64(lookAgain) {
		return old, nil
	}
	s, err := f.refresh(ctx, old)
	if errors.Is(err, ErrNotFound) {
		f.asked.Store(time.Now().UnixNano())
	}
	return s, err
}
