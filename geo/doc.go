// Package geo keeps the positions of very many members that move, on Redis: an index
// that is sharded by geohash cell, so that no key grows past about 1 MB and the work is
// spread over a cluster, and whose queries see each member exactly once while it moves.
//
// # Use
//
// Indexes are made once, and an index is opened by name and kept:
//
//	indexes, err := geo.New(client, geo.Options{})
//	…
//	taxis, err := indexes.Open(ctx, "taxis")
//	…
//	isNew, err := taxis.Add(ctx, "taxi:7", geo.Point{Longitude: 13.40, Latitude: 52.52})
//	…
//	found, err := taxis.Near(ctx, geo.Query{From: here, Radius: 2 * geo.Kilometre, Limit: 10})
//
// [Index.Add] puts a member where it is now, new or not; [Index.Move] only one that is
// in the index. A [Query] asks for a circle or a box around a point or a member.
// Longitude comes first, as in Redis. All of the globe may be used, the poles too, which
// Redis' own commands don't take; a position is kept to half a metre.
//
// # How it works
//
// Members are in cells, ranges of a curve that goes through all cells of the geohash.
// An index begins with three cells: the middle of the globe up to 70 degrees, and the
// two caps, which are turned so that the pole is where longitude and latitude are 0:
// otherwise cells there would be slivers. A cell that has some 800 kB is split in two,
// in its middle. The curve ends in 16 bits of the member's hash, so that a cell is
// split too whose members are all at one point.
//
//	<prefix>:{<name>:<cell>}:state     hash  whether the cell was split
//	<prefix>:{<name>:<cell>}:points    zset  members, by 52 bits of geohash
//	<prefix>:{<name>:<cell>}:arriving  hash  members that are to come
//	<prefix>:{<name>:<cell>}:leaving   hash  members that have left, and where they go
//	<prefix>:{<name>:<cell>}:left      zset  those that have arrived there, and the steps that
//	                                         had brought those who left; for 10 s
//	<prefix>:{<name>:<n>}:members      hash  in which cell a member is; 16,384 of them
//
// A cell is called by the first and the last number of its range, in hexadecimal. The
// fields of its state are:
//
//	state  live, frozen or split; live if it is missing
//	split  where its second part begins, in hexadecimal
//	bytes  what its members take, by an estimate
//	who    splits it; until when nobody else does, in µs
//	whole  1 if it can't be split, because all members have one hash too
//
// A query is one script in each cell that has a part of the area, which does GEOSEARCH and
// reads what is beside it, all at once. Which cells there are each process learns on
// the way: a cell that was split says so, and is not asked again.
//
// A member that moves within its cell is one ZADD in one script: one round trip. When
// it goes to another, the two cells are in different slots, and nothing does both at
// once. So it is a step, with a random id:
//
//  1. announce: the new cell notes that the member is to come.
//  2. leave: the old cell takes it out and notes where it went, in one script. This
//     is the moment when it moves.
//  3. arrive: the new cell takes it in.
//  4. assign: the index of members notes where it is.
//  5. close: the old cell notes that all is done.
//
// From 2 on anybody can do the rest, again too: whoever looks for the member finds the
// note in its old cell and ends the step before anything else. Where a step has brought a
// member, it leaves once: the old cell refuses a second step that follows the same one,
// by a mover that stood still while the member went away and came back. So the steps of
// a member are one row. A new member is announced, then assigned, which makes it a
// member, and then arrives.
//
// The index of members may name a cell that was split since, or is split later: it names
// the one where the member was announced, and all parts of that are asked. One that is
// seen in two of them went from one to the other just then, and is asked for again.
//
// A query reads of each cell at once who is announced, who is there, and who has left
// since the query began, with a second to spare. Say that a member is in the
// area all the while. At the beginning it is in one cell, or has left another for it.
// When that cell is read, it is announced there, or it is there, or it has left
// meanwhile and its note says for where. Who is there is found. Of the others the
// query asks where they are now, in two round trips more, and only of those whose note
// names a place in the area and who were not found anyhow. So nobody is lost; and
// nobody is doubled, because what was announced counts only once the old cell says so.
// Neither needs clocks that agree: the times in a note are compared on the server that
// wrote it. A query that takes longer than 8 s begins anew.
//
// A mover that dies before 2 leaves an announcement, which a query takes away after 30
// s: by then 2 can't happen any more, because it is refused 5 s after it was found out
// where the member was. One that dies later leaves a step that others end.
//
// A cell that is full is frozen: it can be read and not be changed. Its members are
// copied to its two parts, the homes in the index of members are corrected, and then it
// says that it is split. A part that is ready refuses to be filled, so it does no harm
// when two processes split one cell. After 2 s another takes over from one that died.
//
// Rejected: an index of members that alone says where each is, so that cells hold only
// candidates (every query would have to ask for each candidate); versions in the cells
// (two of them can't be compared unless both were read at the right time); a fixed
// grid, with a sorted set for each square (a city fills one of them); one key that
// lists all cells (all clients would read it, and it would be of no use when it is
// lost).
//
// # What is promised
//
// While the server keeps its data:
//
//   - A query finds exactly those who are in its area, by their positions as kept,
//     whatever its size, at the poles and across the antimeridian. (TestAgainstBruteForce)
//   - While members move and cells are split, a query sees each of them exactly once,
//     also when movers or queries stand still, or movers die. (TestMovesAreSeenOnce,
//     TestMoveDuringQuery, TestLateQuery, TestSlowMover, TestLateFind,
//     TestMoveBetweenParts)
//   - What is done with a member, and what queries see of it, could have happened one
//     after the other. (TestHistory)
//   - A process that dies leaves a member at its old place or its new one, and nothing
//     that others don't take away. (TestDeadMovers, TestSplitBeforeAMoveIsNoted,
//     TestDeadSplitter, TestSlowSplitter)
//   - No key grows past 1 MB, up to 100 million members, even with all members at one
//     point. (TestKeysStaySmall, TestOnePoint)
//   - A move within a cell is one round trip, and so is a query. (TestRoundTrips)
//   - What is out of range is refused, and then nothing is written. (TestBadInput)
//
// # What is not promised
//
// When a primary fails, writes that no replica had are lost, as always with Redis: a
// member whose cell is lost is put back by the next Add, and until then is not found;
// one whose cell came back and whose home did not may be found at an old place too,
// until it is deleted with the index. Distances are those on a sphere. Redis 6.2 before
// 6.2.7 has an error in GEOSEARCH that can lose members at the edge of a large box.
// Moves of one member from several processes at once happen in some order. When a cell
// is split, those who change it wait, some tens of milliseconds.
package geo
