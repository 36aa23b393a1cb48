// Package queue keeps messages for later, on Redis: now, after a delay, again after
// a failure, in order where that is asked for; and wakes who works on them.
package queue
