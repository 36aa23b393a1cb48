package lock

import "github.com/redoubt-go/redoubt"

// Fair waiters have a queue of their own in the lock's hash, with an entry for each acquisition: a
// doubly linked list.
//
//	fair                  how many are in the queue
//	fair_first, fair_last the nodes at its ends: a '=' and the id
//	=<id>                 four strings, each after its length in two bytes: how to
//	                      wake it, as at <place>; the message that the lock is
//	                      granted; the node before it, unless it is the first; the
//	                      node behind it
//	granted               the fence of a grant without an answer yet
//	granted_to            how its waiter was woken
//	dead                  how to wake the process that missed the last grant

// FairCmd tries to acquire a lock, and puts the acquisition, which needs a Waiter, at the end of
// the fair queue.
func FairCmd(keys []string, r Request) redoubt.Cmd {
	return redoubt.Cmd{
		Script: fairScript,
		Keys:   keys,
		Args:   []string{r.ID, micros(r.TTL), keep(r.TTL), r.Label, r.Waiter, member(r.ID), Arrival(keys[0], r.ID)},
		Flags:  redoubt.Idempotent,
	}
}

// Arrival is the message that the lock is granted to the acquisition id. Without its last byte it
// says that the acquisition is the next in the queue.
func Arrival(key, id string) string { return key + " " + id + "!" }

// FairReleaseCmd is [ReleaseCmd] for a lock that is acquired by [FairCmd]: with void it also takes
// the acquisition out of the queue.
func FairReleaseCmd(keys []string, id, waiter string, void bool) redoubt.Cmd {
	if void {
		waiter = member(id)
	}
	return ReleaseCmd(keys, id, waiter, void)
}

// FairLeaveCmd takes an acquisition out of the queue. It passes a granted lock on, but leaves an
// acquired one.
func FairLeaveCmd(keys []string, id string) redoubt.Cmd {
	return redoubt.Cmd{Script: releaseScript, Keys: keys, Args: []string{id, member(id), "2"}, Flags: redoubt.Idempotent}
}
