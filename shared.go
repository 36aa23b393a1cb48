package redoubt

// Shared returns a value that the packages on this Client share, by key. create makes it at the first
// call; when several first calls come at once, create may run more than once and one result is kept. Use a
// key of a type of your own, as with context.WithValue.
func (c *Client) Shared(key any, create func() any) any {
	if v, ok := c.shared.Load(key); ok {
		return v
	}
	v, _ := c.shared.LoadOrStore(key, create())
	return v
}
