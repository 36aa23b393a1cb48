// Package hll counts the distinct visitors and the views of each page on Redis, by day or by hour,
// with hardly any load on the server.
//
// # Use
//
// Make one [Visitors] and use it for all pages. A visit costs no round trip:
//
//	visitors, err := hll.New(client, hll.Options{Location: shanghai})
//	…
//	defer visitors.Close()
//	…
//	err = visitors.Add("/pricing", "user:7")
//	…
//	today, err := visitors.Count(ctx, "/pricing", time.Now())
//	week, err := visitors.Last(ctx, 7, "/pricing", "/pricing/teams")
//	fmt.Println(week.Visitors, week.Views) // a visitor of both pages on all days is one visitor
//
// [Visitors.Series] returns the points of a graph. [Visitors.CountKeys] is PFCOUNT for keys in
// different slots. A [Sketch] is a HyperLogLog in memory.
//
// # What is promised
//
// While the server keeps its data:
//
//   - A batch adds to the server, register for register, what PFADD of the same visitors adds.
//   - The standard error of the number of visitors is 0.81 %.
//   - A visitor counts once in a union, on any pages and days and in any slots.
//   - A view that was sent counts once, even if it is lost on the way and sent again.
//   - Counts are sent within FlushEvery, at FlushBytes, and by Close.
//   - Close sends counts for at most 10 seconds and says how much it could not send.
//   - A day is a day of the time zone, and is kept for as long as Keep says.
//   - While the server is away, unsent counts take at most MaxBytes.
//   - A page whose key holds something else does not hold up the others.
//   - Bad input is refused, and nothing is written.
//
// # What is not promised
//
// A process that dies loses the visits that it has not sent: usually the last [Options.FlushEvery] (a
// second by default) and the flush under way, and during an outage of the server all visits since the
// outage began. The counts on the server and in other processes stay. The clock of the process decides
// the period of a visit; the server is not asked. The hash is fast and not secret: an attacker who
// chooses the names of visitors can make the estimate too high.
//
// # How it works
//
// A HyperLogLog (Flajolet and others, 2007; the estimate is Ertl's, 2017) hashes each visitor to one of
// 16,384 registers, and each register keeps the longest run of zeros that it has seen. This takes
// 12 KiB and gives the number of visitors to 0.81 %. Merging the registers of several HyperLogLogs
// gives the HyperLogLog of all their visitors.
//
// Each process keeps registers of its own for the current pages and raises them in less than 100 ns a
// visit. It sends them every second, or earlier when they take too much memory: one script for each
// page that was visited. A few registers are sent as elements for PFADD: 8 bytes each, constructed to
// hash to the wanted register. Many are sent as a sketch in Redis' encoding, for PFMERGE. PFCOUNT and
// PFMERGE read the keys.
//
//	<prefix>:{<page>}:visitors:<period>  string  a HyperLogLog
//	<prefix>:{<page>}:views:<period>     hash    n: the views; <process>: the number of the last batch
//	                                             that the server counted of this process
//	<prefix>:{<page>}:work               string  exists while a script runs
//
// A period is 2026-11-21, or 2026-11-21T15 in UTC where hours are counted. Its keys expire
// [Options.Keep] after its end. All keys of a page are in one slot, so a window of one page is one
// PFCOUNT. Pages are in different slots and are merged in this process.
//
// Rejected: sending the visitors themselves in batches (it takes bytes for each visit, and costs the
// server what PFADD of each visit costs); a key for the sketch that a second command merges (a process
// that dies between the two leaves the key).
package hll
