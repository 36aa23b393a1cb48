// Package geo is an index of the positions of members that move, on Redis. An index holds up to 100
// million members. It is sharded by geohash cell, so no key grows past 1 MB and a cluster shares the
// work. A query finds each member exactly once, also while the member moves.
//
// # Use
//
// Make the Indexes once. Open an index by name and keep it:
//
//	indexes, err := geo.New(client, geo.Options{})
//	…
//	taxis, err := indexes.Open(ctx, "taxis")
//	…
//	isNew, err := taxis.Add(ctx, "taxi:7", geo.Point{Longitude: 13.40, Latitude: 52.52})
//	…
//	found, err := taxis.Near(ctx, geo.Query{From: here, Radius: 2 * geo.Kilometre, Limit: 10})
//
// [Index.Add] sets the position of a member, new or not. [Index.Move] changes only members that are in
// the index. A [Query] finds the members in a circle or a box around a point or a member. Longitude
// comes first, as in Redis. Unlike Redis' own commands an index takes every point of the globe, the
// poles too. It keeps a position to half a metre.
//
// # What is promised
//
// While the server keeps its data:
//
//   - A query finds exactly the members in its area, whatever the size of the area, at the poles and
//     across the antimeridian. Positions count as they are kept.
//   - While members move and cells are split, a query finds each member exactly once, also when a mover
//     or a query is slow, and when a mover dies.
//   - All changes of one member, and the queries that find it, have one order that explains every
//     result.
//   - A process that dies leaves a member at its old place or at its new one. Other processes remove
//     everything else that it leaves behind.
//   - No key grows past 1 MB, even when all members are at one point. This is so for up to 100 million
//     members.
//   - A move within a cell costs one round trip. So does a query.
//   - A value that is out of range is refused before anything is written.
//   - After an index is deleted, every open handle of its name answers as for an index without members, or
//     as for the new index of that name.
//
// # What is not promised
//
// When a primary fails, writes that no replica had are lost, as always with Redis. A member whose cell is
// lost is not found until the next Add. If a member's cell survives but its entry in the index of
// members is lost, a query may also find it at an old place, until the index is deleted. Distances are
// on a sphere. Redis 6.2 before 6.2.7 has an error in GEOSEARCH that can lose members at the edge of a
// large box. When several processes move one member at once, the order of the moves is not defined.
// While a cell is split, clients that change it wait, some tens of milliseconds.
//
// # How it works
//
// Members are in cells. A cell is a range of a curve that visits every cell of the geohash grid. An
// index begins with three cells: the middle of the globe up to 70 degrees of latitude, and two polar
// caps. The caps are rotated so that the pole is at longitude 0 and latitude 0; cells there would be
// slivers otherwise. A cell with about 800 kB is split in its middle. The curve ends in 16 bits of the
// member's hash, so a cell can be split even when all its members are at one point.
//
//	<prefix>:{<name>:<cell>}:state     hash  whether the cell was split
//	<prefix>:{<name>:<cell>}:points    zset  members, by 52 bits of geohash
//	<prefix>:{<name>:<cell>}:arriving  hash  members that are announced
//	<prefix>:{<name>:<cell>}:leaving   hash  members that have left, and their destinations
//	<prefix>:{<name>:<cell>}:left      zset  members that have arrived at their destinations, and the
//	                                         steps that had brought them here; for 10 s
//	<prefix>:{<name>:<n>}:members      hash  the cell of each member; 16,384 such hashes
//
// A cell's name is the first and the last number of its range, in hexadecimal. The fields of its state
// are:
//
//	state  live, frozen or split; live if it is missing
//	split  where its second part begins, in hexadecimal
//	bytes  an estimate of the memory of its members
//	who    the process that splits it, and until when no other process does, in µs
//	whole  1 if it can't be split, because all members have one hash too
//
// A query runs one script in each cell that overlaps the area, in all of them at once. The script runs
// GEOSEARCH and reads the cell's other keys. Each process learns the cells on the way: the script of a
// cell that was split says so, and the process doesn't ask that cell again. A part has a state from the
// start. When a part has none, the process asks the cells above it again: either the server has lost the part,
// or the index was deleted, and the process forgets its cells.
//
// A move within a cell is one ZADD in one script: one round trip. When a member moves to another cell,
// the two cells are in different slots, and no script can change both. So such a move is a step with a
// random id:
//
//  1. announce: the new cell notes that the member will come.
//  2. leave: the old cell removes the member and notes its destination, in one script. At this moment
//     the member moves.
//  3. arrive: the new cell adds the member.
//  4. assign: the index of members notes the new cell.
//  5. close: the old cell notes that the step is complete.
//
// From 2 on any process can complete the step, and may repeat parts of it. A process that looks for the
// member finds the note in its old cell and completes the step first. After each arrival a member can
// leave only once: the cell refuses a second departure that refers to the same arrival. Such a
// departure comes, for example, from a mover that was suspended while the member left and came back. So
// the steps of a member form a sequence. A new member is announced, then assigned (from then on it is a
// member), and then it arrives.
//
// The index of members may name a cell that was split since or is split later. It names the cell where
// the member was announced, and a process asks all parts of that cell. When it sees the member in two
// parts, the member has just moved from one to the other, and the process asks again.
//
// A query reads three things of each cell at once: the announced members, the present members, and the
// members that have left since the query began, with a second to spare. Suppose that a member is in
// the area all the time. When the query begins, the member is in one cell, or has left another cell for it.
// When the query reads that cell, the member is announced there, or it is there, or it has left and its
// note names its destination. The query finds the members that are there. It looks up the other members
// in two more round trips, unless their note names a place outside the area or another cell has
// returned them. So the query misses no member. It finds none twice, because an announcement counts
// only once the old cell confirms it. Clocks need not agree: the server that wrote the
// times of a note also compares them. A query that takes longer than 8 s starts again.
//
// A mover that dies before 2 leaves an announcement. A query removes it after 30 s: 2 can't happen any
// more by then, because it is refused 5 s after the mover read the member's place. A mover that dies
// later leaves a step that other processes complete.
//
// A full cell is frozen: it can be read but not changed. Its members are copied to its two parts, the
// index of members gets the new cells, and then the state of the cell says that it is split. A part that is
// complete refuses to be filled, so two processes may split one cell without harm. After 2 s another
// process takes over the split of a process that died.
//
// Rejected: an index of members that alone decides where a member is, with cells that hold only
// candidates (a query would have to look up every candidate); versions in the cells (two versions can't
// be compared unless both were read at the right time); a fixed grid with a sorted set for each square
// (a city fills one square); one key that lists all cells (all clients would read it, and its loss
// would break the index).
package geo
