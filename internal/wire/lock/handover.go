package lock

import (
	"context"
	"time"
)

type handOverKey struct{}

// OnHandOver returns a context with a function for [TellHandOver].
func OnHandOver(ctx context.Context, f func(took time.Duration)) context.Context {
	return context.WithValue(ctx, handOverKey{}, f)
}

// TellHandOver calls the function of [OnHandOver], if ctx has one. Package lock calls it when the server has given a
// lock to a waiter; took is the time since the waiter was woken.
func TellHandOver(ctx context.Context, took time.Duration) {
	if f, ok := ctx.Value(handOverKey{}).(func(time.Duration)); ok {
		f(took)
	}
}
