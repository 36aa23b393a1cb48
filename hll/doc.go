// Package hll counts visitors: how many different ones each page had, by the day or by
// the hour, and how many views, on Redis, with hardly any load on it.
//
// # Use
//
// Visitors are made once, and a visit costs no round trip:
//
//	visitors, err := hll.New(client, hll.Options{Location: shanghai})
//	…
//	defer visitors.Close()
//	…
//	err = visitors.Add("/pricing", "user:7")
//	…
//	today, err := visitors.Count(ctx, "/pricing", time.Now())
//	week, err := visitors.Last(ctx, 7, "/pricing", "/pricing/teams")
//	fmt.Println(week.Visitors, week.Views) // who saw both pages on all days is one visitor
//
// [Visitors.Series] has the numbers of a graph; [Visitors.CountKeys] is PFCOUNT for keys in
// different slots; a [Sketch] is the same thing in memory.
//
// # How it works
//
// A HyperLogLog (Flajolet and others, 2007; the estimate is Ertl's, 2017) keeps of all
// visitors the largest run of zeros in the hashes that fall into each of 16,384 registers:
// 12 KiB, from which their number is known to 0.81 %. The registers of several can be
// put together, and it is the same as if all visitors had been in one.
//
// So each process keeps registers of its own for the pages of the moment, raises them in
// less than 100 ns a visit, and sends them every second, or when they take too much memory:
// one script for each page that was visited. Few registers go as elements for PFADD, 8 bytes
// each that are made to have the hash that is wanted; many as a sketch in the encoding of
// Redis, by SET and PFMERGE. What is on the server is at any time what PFADD of every
// visitor would have made, and PFCOUNT and PFMERGE know it.
//
//	<prefix>:{<page>}:visitors:<period>  string  a HyperLogLog
//	<prefix>:{<page>}:views:<period>     hash    n: the views; <process>: the number of the last
//	                                             batch that was counted of each process
//	<prefix>:{<page>}:work               string  for the time of a script
//
// A period is 2026-11-21, or 2026-11-21T15 in UTC where hours are counted. Its keys expire
// [Options.Keep] after its end. All those of a page are in one slot, where a window is one
// PFCOUNT; pages are in different slots, and are merged in this process.
//
// Rejected: the visitors themselves, in batches (as many bytes as visits, and as much work
// for the server as without it); a key for a sketch that is merged by a second command (who
// dies in between leaves it).
//
// # What is promised
//
// While the server keeps its data:
//
//   - What is sent in batches is, register for register, what PFADD makes of the same
//     visitors. (TestSameAsPfadd)
//   - The standard error is 0.81 %. (TestError)
//   - Of a union a visitor is one, on however many pages and days and in whatever slots.
//     (TestUnions, TestCountKeys, TestCluster)
//   - A view that was sent counts once, whatever is lost on the way and sent again.
//     (TestLostBatches, TestConcurrent)
//   - What was counted is sent within FlushEvery, at FlushBytes, and by Close. (TestFlushes)
//   - A day is one of the time zone, and is kept for as long as Keep says. (TestPeriods,
//     TestNamedPeriods, TestPeriodTurns, TestKeep)
//   - While the server is away, what waits takes MaxBytes at most; a page whose key holds
//     something else keeps no other up. (TestFull, TestHopelessPage)
//   - Bad input is refused, and nothing is written. (TestBadInput)
//
// # What is not promised
//
// What a process has counted and not sent is lost when it dies: the visits of the last
// [Options.FlushEvery], a second unless another is chosen, and of the time that a flush
// takes; while the server can't be reached, all since then. What the server has, and all
// that other processes have counted, is untouched by that. The period of a visit is decided
// by the clock of the process, not by that of the server, which is not asked. The hash is
// fast and not secret: who chooses the names of visitors can choose such as count too much.
package hll
