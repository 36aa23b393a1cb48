// Package gocronlock lets the jobs of gocron (github.com/go-co-op/gocron/v2) run once in all
// processes that use one Redis. It is a module of its own, so that the rest of Redoubt doesn't
// depend on gocron.
//
// With a [Locker] each run of a job goes to the first process to ask:
//
//	locker, err := gocronlock.New(client, gocronlock.Options{})
//	…
//	scheduler, err := gocron.NewScheduler(gocron.WithDistributedLocker(locker))
//
// With an [Elector] all jobs run in one process, until it ends:
//
//	elector, err := gocronlock.NewElector(client, gocronlock.ElectorOptions{Label: hostname})
//	…
//	scheduler, err := gocron.NewScheduler(gocron.WithDistributedElector(elector))
//
// Use one of the two: gocron asks no Locker where there is an Elector. A third way needs no adapter:
// start the scheduler in the function of lock.Mutex.Elect, and shut it down when the
// function's context ends.
//
// gocron does not end a running job when its lock or the lead is lost. A job that must not run
// beside another one calls lock.Mutex.Do itself, with a fencing token.
//
// # What is promised
//
//   - A job that is due in several processes runs in one of them, if their clocks differ by less
//     than Options.Hold.
//   - A process leads until its lease ends; then the next process with a job that is due leads.
//   - While the server can't be reached, no job runs, except that a leader goes on until its lease
//     ends.
//
// # How it works
//
// A Locker acquires a lock of package lock. The processes' clocks differ, so a short job may have
// ended in one process before it is due in another. The lock must outlast that: after a job that is
// shorter than Options.Hold, the Locker doesn't release the lock but lets its lease run out.
// An Elector acquires a lock when a job is due, and keeps it.
package gocronlock
