package cache

import "time"

// RenewEvery sets how often leases are renewed.
func (c *Cache[K, V]) RenewEvery(d time.Duration) { c.renewEvery = d }

// Heard reports whether the local level is subscribed.
func (c *Cache[K, V]) Heard() bool { return c.local.subscribed.Load() }

// Resync makes the Cache ask for the server's clock at its next read.
func (c *Cache[K, V]) Resync() { c.clock.told.Store(0) }

// Idle reports whether nothing is being loaded in the background.
func (c *Cache[K, V]) Idle() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.mu.refreshing) == 0
}

// LocalFresh is for how long the local level keeps a key.
func (c *Cache[K, V]) LocalFresh(key K) time.Duration {
	e, ok := c.local.entries.GetIfPresent(key)
	if !ok {
		return 0
	}
	return time.Duration(e.fresh-c.clock.mono()) * time.Microsecond
}
