// Package bitmap stores flags and small numbers as bits on Redis: calendars of marked days, bitmaps of
// up to 2^63 bits, and records of small integers.
//
// # Calendars
//
// A calendar has a mark for each day, such as the days on which a user signed in:
//
//	calendars, err := bitmap.NewCalendars(client, bitmap.CalendarOptions{Location: shanghai})
//	…
//	today, err := calendars.MarkToday(ctx, "user:7")
//	…
//	today.New                                 // the first time today: here is your bonus
//	today.Calendar.Streak(today.Day).Days     // so many days in a row
//	today.Calendar.Month(2026, time.November) // a picture of the month
//
// A [Calendar] is one string. One GET reads all of it, and Go code answers the questions, so there is
// no script for each question and all answers are from one moment. A year takes 46 bytes. Rejected: a
// key for each month, as in most recipes. A streak then ends with the month or needs a key for each of
// its months, and a key takes more memory than the bits of ten months.
//
// # Maps
//
// A map is a set of numbers, such as the ids of the users who were active on a day:
//
//	maps, err := bitmap.New(client, bitmap.Options{})
//	…
//	_, err = maps.Set(ctx, "active:2026-11-21", 7, 8, 1<<40)
//	…
//	stayed, err := maps.CountOf(ctx, bitmap.And, "active:2026-11-20", "active:2026-11-21")
//
// [Maps.Combine] and [Maps.CountOf] apply BITOP to whole maps, even if their keys are in different
// slots. A map is for numbers that lie close together; use a set for numbers that lie anywhere, such
// as hashes.
//
// # Records
//
// A record has fields of 1 to 64 bits, which are declared once:
//
//	players, err := bitmap.NewRecords(client, bitmap.RecordOptions{Fields: []bitmap.Field{
//		{Name: "level", Type: "u7", Overflow: bitmap.Saturate},
//		{Name: "gold", Type: "u40", Overflow: bitmap.Fail},
//	}})
//	…
//	o, err := players.Update(ctx, "player:7", bitmap.Incr("gold", -20), bitmap.Incr("level", 1))
//	…
//	if o.Overflowed == "gold" { … } // there is not enough gold, and the level is unchanged
//
// BITFIELD alone makes the changes that it can and leaves out the one that fails. Here a call makes
// all of its changes or none.
//
// # What is promised
//
// While the server keeps its data:
//
//   - A calendar answers as a set of days.
//   - A map answers as a set of numbers.
//   - A combination of maps answers as a combination of sets, on a cluster too.
//   - The server's clock and the time zone decide what day it is, also where clocks are turned.
//   - Every bit that is set is counted, even if the map is deleted meanwhile or the process that makes its
//     shard dies; but not if both happen.
//   - A map expires as a whole.
//   - Many calendars, bits or records are one round trip to each server.
//   - The field of a record answers as an integer that wraps, saturates or refuses.
//   - A refused update changes nothing.
//   - Bad input is refused, and nothing is written.
//
// # What is not promised
//
// A call that reads or changes several shards of a map is not atomic: bits that are set meanwhile may
// count or not. If a process creates a shard while another deletes the map, and dies before it
// updates the index again, the shard's bits are set but not counted. The server does not store the
// declaration of a record's fields: a program that declares other fields at the same offsets reads
// wrong values.
//
// # How it works
//
//	<prefix>:{<name>}:calendar   string  4 bytes: the first day that it has room for, in days since
//	                                     1900-01-01; then a bit for each day
//	<prefix>:{<name>}:map        hash    for each shard of a map 1, or 0 while it is deleted; until:
//	                                     when the map expires, in ms since 1970
//	<prefix>:{<name>:<n>}:bits   string  the n-th shard, with its bits numbered as SETBIT does
//	<prefix>:{<name>:<n>}:work   string  exists while a script counts a combination
//	<prefix>:{<name>}:record     string  the fields, packed as BITFIELD does, without gaps
//
// The bits of a map are in shards of 262,144, with hash tags of their own. So a map is spread over the
// nodes of a cluster and takes memory only where bits are set: up to 32 KiB for each such shard. A
// process enters a shard into the map's index before it creates the shard, and again afterwards. If
// the map is deleted in between or the process dies, the index at worst names a shard that does not
// exist.
package bitmap
