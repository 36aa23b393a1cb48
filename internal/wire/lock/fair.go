package lock

import "github.com/redoubt-go/redoubt"

// Those who are served in the order in which they asked are in a queue of their own in the lock's
// hash, each acquisition for itself: a list linked both ways.
//
//	fair                  how many are in the queue
//	fair_first, fair_last the nodes at its ends: a '=' and the id
//	=<id>                 four strings, each after its length in two bytes: how it
//	                      is woken, as at <place>; the message that the lock is
//	                      here; the nodes before it, unless it is the first, and
//	                      behind
//	granted               the fence of a grant that was not answered yet
//	granted_to            how that was told
//	dead                  how the process is woken that let the last grant pass

// FairCmd tries to acquire a lock, and puts the acquisition, which needs a Waiter, at the end of
// the queue of those who are served in order.
func FairCmd(keys []string, r Request) redoubt.Cmd {
	return redoubt.Cmd{
		Script: fairScript,
		Keys:   keys,
		Args:   []string{r.ID, micros(r.TTL), keep(r.TTL), r.Label, r.Waiter, member(r.ID), Arrival(keys[0], r.ID)},
		Flags:  redoubt.Idempotent,
	}
}

// Arrival is the message that the lock is here for the acquisition id; without
// its last byte, that it is the next in the queue.
func Arrival(key, id string) string { return key + " " + id + "!" }

// FairReleaseCmd is [ReleaseCmd] for a lock that is acquired by [FairCmd]: with void it also takes
// the acquisition out of the queue.
func FairReleaseCmd(keys []string, id, waiter string, void bool) redoubt.Cmd {
	if void {
		waiter = member(id)
	}
	return ReleaseCmd(keys, id, waiter, void)
}

// FairLeaveCmd takes an acquisition out of the queue, and gives the lock on if that
// has just been handed to it, but not once it has acquired it.
func FairLeaveCmd(keys []string, id string) redoubt.Cmd {
	return redoubt.Cmd{Script: releaseScript, Keys: keys, Args: []string{id, member(id), "2"}, Flags: redoubt.Idempotent}
}
