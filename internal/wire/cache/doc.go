// Package cache has the scripts of package cache, the commands that run them, and the readers of
// their replies.
package cache
