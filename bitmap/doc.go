// Package bitmap keeps what is yes or no, or a small number, in bits on Redis:
// calendars of marked days, bitmaps without a limit at 2^32, and records of small
// integers.
//
// # Calendars
//
// A calendar has a mark for each day, like those on which a user signed in:
//
//	calendars, err := bitmap.NewCalendars(client, bitmap.CalendarsOptions{Location: shanghai})
//	…
//	today, err := calendars.MarkToday(ctx, "user:7")
//	…
//	today.New                                 // the first time today: here is your bonus
//	today.Calendar.Streak(today.Day).Days     // so many days in a row
//	today.Calendar.Month(2026, time.November) // a picture of the month
//
// A [Calendar] is one string, read as a whole by one GET and looked at in Go, so that
// there is no script for each question, and all answers are of one moment. A year takes
// 46 bytes. Rejected: a key for each month, as most recipes have it. A streak then ends
// with the month, or needs as many keys as it has months, and a key takes more memory
// than the bits of ten months.
//
// # Maps
//
// A map is a set of numbers, like the ids of the users who were active on a day:
//
//	maps, err := bitmap.New(client, bitmap.Options{})
//	…
//	_, err = maps.Set(ctx, "active:2026-11-21", 7, 8, 1<<40)
//	…
//	stayed, err := maps.CountOf(ctx, bitmap.And, "active:2026-11-20", "active:2026-11-21")
//
// Its bits are in shards of 262,144, with hash tags of their own, so that a map is spread
// over the nodes of a cluster, has no end at 2^32, and takes memory only where bits are:
// up to 32 KiB for each shard in which there is one. It is for numbers that lie together;
// for hashes, which lie anywhere, take a set. [Maps.Combine] and [Maps.CountOf] are
// BITOP across maps, also where their shards are in different slots.
//
// # Records
//
// A record has fields of 1 to 64 bits, which are declared once:
//
//	players, err := bitmap.NewRecords(client, bitmap.RecordsOptions{Fields: []bitmap.Field{
//		{Name: "level", Type: "u7", Overflow: bitmap.Saturate},
//		{Name: "gold", Type: "u40", Overflow: bitmap.Fail},
//	}})
//	…
//	o, err := players.Update(ctx, "player:7", bitmap.Incr("gold", -20), bitmap.Incr("level", 1))
//	…
//	if o.Overflowed == "gold" { … } // there is not enough of it, and the level is as it was
//
// BITFIELD by itself makes the changes that it can and leaves out the one that fails;
// here a call does all or nothing.
//
// # Keys
//
//	<prefix>:{<name>}:calendar   string  4 bytes, the first day that it has room for, in
//	                                     days since 1900-01-01; a bit a day from that on
//	<prefix>:{<name>}:map        hash    of each shard of a map 1, or 0 while it is deleted;
//	                                     until: when all of it expires, in ms since 1970
//	<prefix>:{<name>:<n>}:bits   string  the n-th shard, its bits as those of SETBIT
//	<prefix>:{<name>:<n>}:work   string  for the time of a script that counts a combination
//	<prefix>:{<name>}:record     string  the fields, as those of BITFIELD, without gaps
//
// The index of a map is told of a shard before that is made, and once more after it. So
// one that is deleted or whose maker dies meanwhile is at worst known and not there.
//
// # What is promised
//
// While the server keeps its data:
//
//   - A calendar answers as a set of days would. (TestCalendarAgreesWithModel)
//   - What day it is, is decided by the server's clock and the time zone, also where
//     clocks are turned. (TestMarkTodayByTheServersClock)
//   - A map answers as a set of numbers would, and a combination of maps as one of sets,
//     on a cluster too. (TestMapAgreesWithModel, TestCombineAgreesWithModel, TestCluster)
//   - Every bit that is set is counted, though the map was deleted meanwhile, or who made
//     its shard has died. (TestMapDeletedInUse, TestMapDeletedBetween,
//     TestMapMakerDies)
//   - A map expires as a whole. (TestMapExpires)
//   - Many calendars, bits or records are one round trip to each server.
//     (TestCalendarRoundTrips, TestMapRoundTrips, TestRecordSchemaGrows)
//   - A record holds what integers would, that wrap, saturate, or refuse; a refused call
//     changes nothing. (TestRecordAgreesWithModel, TestRecordRefused)
//   - Bad input is refused, and nothing is written. (TestCalendarBadInput,
//     TestMapBadInput, TestRecordBadInput)
//
// # What is not promised
//
// A call that reads or changes several shards of a map is not one moment: bits that are
// set meanwhile count or don't. Who makes a shard while another deletes the map, and dies
// before the index is told again, leaves bits that are set and not counted. The fields of
// a record are not kept with it: programs that declare others in the same places read
// nonsense.
package bitmap
