// Package metrics makes Prometheus metrics of what a server has counted, and of the state of names.
//
//	set := metrics.For(out, pool)
//	set.Server(srv)
//	set.Names(watcher.Read())
//
// A metric has the label pool in front of pools, and lacks it otherwise. No label has more values than this
// process has commands, or than [command.MaxNames] and the Watcher's bound of names.
package metrics
