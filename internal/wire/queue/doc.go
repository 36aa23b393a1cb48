// Package queue is what package queue and the commands QUEUE.* say to the server: the keys, the
// form of a stored message, the scripts, the commands that call them, and the readers of their
// replies. It checks messages, ids and limits.
package queue
