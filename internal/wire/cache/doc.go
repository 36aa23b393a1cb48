// Package cache is what package cache says to the server: the scripts, the commands that call them,
// and the readers of their replies.
package cache
