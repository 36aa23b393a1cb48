package engine

import (
	"runtime"
	"sync"
)

// A shardLock guards a shard. When the script that holds it becomes slow, the lock opens, while the
// shard stays the script's until the script ends. Waiting and later commands learn of that, and
// answer BUSY.
type shardLock struct {
	sync.Mutex

	slow chan struct{} // closed when the slow script ends that has the shard; nil: none has; or engineClosed
}

// engineClosed is in a lock's slow when its engine is closed: no later call gets the shard, as with a
// slow script, and the check for that costs nothing more.
var engineClosed = make(chan struct{})

// Lock waits for slow scripts too. It locks a shard of a closed engine as well.
func (l *shardLock) Lock() {
	for l.Mutex.Lock(); l.slow != nil && l.slow != engineClosed; l.Mutex.Lock() {
		over := l.slow
		l.Unlock()
		<-over
	}
}

func (l *shardLock) TryLock() bool { return l.Mutex.TryLock() && l.fast() }

// lockUnlessSlow waits, but for no slow script: then it reports false.
func (l *shardLock) lockUnlessSlow() bool {
	l.Mutex.Lock()
	return l.fast()
}

// fast unlocks and reports false when the shard is a slow script's, or its engine is closed.
func (l *shardLock) fast() bool {
	if l.slow == nil {
		return true
	}
	l.Unlock()
	return false
}

// open lets go of the lock for a script that keeps the shard until over is closed.
func (l *shardLock) open(over chan struct{}) {
	l.slow = over
	l.Unlock()
}

// shut takes the lock again for the script.
func (l *shardLock) shut() {
	l.Mutex.Lock()
	l.slow = nil
}

func (sh *shard) lockUnlessSlow() bool { return sh.mu.lockUnlessSlow() }

// tryLock locks the shard, unless a call holds it for longer than a command takes.
func (sh *shard) tryLock() bool {
	for range 3 {
		if sh.mu.TryLock() {
			return true
		}
		runtime.Gosched()
	}
	return false
}

func (e *Engine) lock(set *shardSet)   { set.each(func(i int) { e.shards[i].mu.Lock() }) }
func (e *Engine) unlock(set *shardSet) { set.each(func(i int) { e.shards[i].mu.Unlock() }) }

// lockAll locks all of set by lock, which may fail, or nothing.
func (e *Engine) lockAll(set *shardSet, lock func(*shard) bool) bool {
	var locked shardSet
	ok := true
	set.each(func(i int) {
		if ok = ok && lock(&e.shards[i]); ok {
			locked.add(i)
		}
	})
	if !ok {
		e.unlock(&locked)
	}
	return ok
}
