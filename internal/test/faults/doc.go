// Package faults is a table of server and network faults. The tests of locks and
// stocks check histories under each fault, on each kind of deployment where it
// can occur.
//
//	faults.Each(t, func(t *testing.T, d *faults.Deployment, f faults.Fault) {
//		faults.Rounds(t, f.Round(d), wanted, func(t *testing.T, round uint64, total map[string]int) {
//			site := faults.Site{Deployment: d, …}
//			go work(ctx)
//			f.Strike(ctx, t, &site, rng) // until ctx ends
//		})
//	})
//
// A test binary that uses [Each] calls [Main] first of all.
//
// A clock step differs by back end. The [Engine]'s own clock is stepped, in a
// process of its own. A redis-server has none that a test could set without
// setting the machine's, so there the scripts are changed: what they take for
// TIME is stepped for all callers at once, by a key that they read. The expiry of
// keys, which only cleans up, is not.
package faults
