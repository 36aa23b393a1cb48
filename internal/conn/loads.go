package conn

import (
	"context"
	"sync"
	"time"
)

const (
	// MaxLoads is how often a script is loaded for one command that keeps missing it; then its text is sent.
	MaxLoads = 2
	// loadTimeout bounds one SCRIPT LOAD, which goes on for others when the caller that began it has left.
	loadTimeout = 5 * time.Second
)

// Loads are the SCRIPT LOADs under way, so that many callers that miss a script at the same time load it
// once. Key names a script on a node. The zero value is ready to use.
type Loads[Key comparable] struct {
	mu sync.Mutex
	m  map[Key]*load
}

type load struct {
	done chan struct{}
	err  error
}

// Do runs script, which loads the script of key, or waits for the load of key that is under way. It returns the
// load's error. The end of ctx ends neither.
func (l *Loads[Key]) Do(ctx context.Context, key Key, script func(context.Context) error) error {
	l.mu.Lock()
	if other := l.m[key]; other != nil {
		l.mu.Unlock()
		<-other.done
		return other.err
	}
	own := &load{done: make(chan struct{})}
	if l.m == nil {
		l.m = make(map[Key]*load)
	}
	l.m[key] = own
	l.mu.Unlock()

	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), loadTimeout)
	own.err = script(ctx)
	cancel()

	l.mu.Lock()
	delete(l.m, key)
	l.mu.Unlock()
	close(own.done)
	return own.err
}
