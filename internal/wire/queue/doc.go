// Package queue has the scripts of queues and their calling convention. The library's package queue,
// the commands QUEUE.* and the command line share it: keys, the encoding of a stored message,
// commands that call the scripts, and readers of their replies. It validates messages, ids and
// limits.
package queue
