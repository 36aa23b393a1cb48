package redoubt

import (
	"fmt"
	"strconv"
)

// A Reply is a server's answer to one [Cmd]. Its value has the shapes of
// RESP2 whatever protocol the Conn speaks: nil, int64, string, or []any of
// these. Maps and sets arrive flat, doubles and big numbers as strings,
// booleans as 0 or 1.
type Reply struct {
	// Val is the value; nil for a null reply. An error inside an array is a
	// [ServerError] in its place.
	Val any
	// Err is set when there is no value: a [ServerError] when the server
	// refused, an error of the network or of the context, or
	// [ErrUnknownOutcome].
	Err error
}

// IsNil reports whether the server answered null.
func (r Reply) IsNil() bool { return r.Err == nil && r.Val == nil }

// Int returns an integer reply, or a string reply that is an integer.
func (r Reply) Int() (int64, error) {
	if r.Err != nil {
		return 0, r.Err
	}
	return toInt(r.Val)
}

// Text returns a string reply. A null reply is an error: see [Reply.IsNil].
func (r Reply) Text() (string, error) {
	if r.Err != nil {
		return "", r.Err
	}
	switch v := r.Val.(type) {
	case string:
		return v, nil
	case int64:
		return strconv.FormatInt(v, 10), nil
	}
	return "", fmt.Errorf("redoubt: reply is %T, want a string", r.Val)
}

// Array returns an array reply.
func (r Reply) Array() ([]any, error) {
	if r.Err != nil {
		return nil, r.Err
	}
	a, ok := r.Val.([]any)
	if !ok {
		return nil, fmt.Errorf("redoubt: reply is %T, want an array", r.Val)
	}
	return a, nil
}

// Ints copies an array reply of exactly len(dst) integers into dst. The replies of this module's scripts
// have this form.
func (r Reply) Ints(dst []int64) error {
	a, err := r.Array()
	if err != nil {
		return err
	}
	if len(a) != len(dst) {
		return fmt.Errorf("redoubt: reply has %d elements, want %d", len(a), len(dst))
	}
	for i, v := range a {
		if dst[i], err = toInt(v); err != nil {
			return err
		}
	}
	return nil
}

func toInt(v any) (int64, error) {
	switch v := v.(type) {
	case int64:
		return v, nil
	case string:
		return strconv.ParseInt(v, 10, 64)
	}
	return 0, fmt.Errorf("redoubt: reply is %T, want an integer", v)
}
