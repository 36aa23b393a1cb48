package redoubt

// Shared returns what the packages built on this Client share, by key: create
// makes it at the first call, and may be called more than once, of which one
// result is kept. A key should be of a type of the caller's own, as with
// context.WithValue.
func (c *Client) Shared(key any, create func() any) any {
	if v, ok := c.shared.Load(key); ok {
		return v
	}
	v, _ := c.shared.LoadOrStore(key, create())
	return v
}
