// Package aof is the append-only log that makes the embedded engine durable.
//
//	log, found, err := aof.Open(fs, aof.Options{Fsync: aof.Always, Compact: fold}, replay)
//	end := log.Append(0, [][][]byte{{[]byte("SET"), []byte("k"), []byte("v")}})
//	err = log.Wait(end) // now the record is on disk
//
// # Directory
//
//	lock             held by the process that has the directory open, whose number is in it
//	manifest         names the base and the logs, and says how long they are
//	0000000003.base  what the logs 1 to 3 amount to
//	0000000004.log   what was appended since, in one log or several
//	*.tmp            a base or a manifest that is being written
//	*.damaged        what [Repair] has replaced, the manifest too
//	reserve          four megabytes that are given up when the disk is full
//
// Opening reads the files that the manifest names: the base, then the logs in
// order. Numbers have ten decimal digits. What a base has made superfluous, and
// what ends in .tmp, is removed.
//
// # Manifest
//
// The manifest is text, in sectors of 512 bytes that are filled up with newlines.
// It is replaced as a whole when a log is begun or a base takes the place of logs:
//
//	redoubt manifest 1
//	id 5d1c0f2a9b3e4c77
//	0000000003.base id 9f8e7d6c5b4a3921 length 1048576
//	0000000004.log id 1122334455667788 length 32
//	sum 89abcdef
//
// The ids are those of the files. The sum is the CRC-32C of the lines before it. A
// file is as long as its line says, and the last log at least as long.
//
// The last sector is the mark. It says how much of the last log is on disk. The writer
// overwrites it in place after each fsync of the log, before it tells the clients that
// wait. The mark itself is synced once a second at most, by another goroutine. So a kill
// loses no mark, and a power cut loses those of the last second or two. The sum is that of
// the manifest's id, as eight bytes, and the text before the sum:
//
//	synced 00000000000000004096 deadbeef
//
// The manifest names a log once the log's header is on disk, before its first frame is.
//
// # File
//
// Bases and logs have one format. Integers are little-endian, checksums
// CRC-32C. A file is a header and any number of frames:
//
//	offset  size
//	0       8     "redoubtL"
//	8       4     version, 2; files of version 1 are read without a manifest
//	12      4     checksum of the other 28 bytes
//	16      8     number of the file
//	24      8     id, random
//
// A frame is what was written in one piece, and holds whole records:
//
//	0       4     "RDf1"
//	4       4     checksum of the id and of all that follows in the frame
//	8       4     length of the payload in bytes
//	12      4     kind: 1 records, 2 seal
//	16      8     offset of the frame in its file
//	24      8     synced: the bytes of the file that were known to be on disk
//	              when the frame was made
//	32            payload
//
// A seal has no payload. It is the last frame of a base, of a log that another
// one follows, and of a log that was closed, unless the file could not grow.
//
// A payload of kind 1 is any number of records. A record is a set of changes
// that were committed together, and is repeated all or none:
//
//	uvarint  length of what follows
//	uvarint  database
//	uvarint  number of commands
//	         for each: uvarint number of arguments; for each: uvarint length, bytes
//
// The commands are those of Redis. They are to be repeated in order, with time
// standing still: deadlines are absolute, and what expired is deleted by a
// command of its own. SELECT changes the database for the rest of its record.
//
// # Torn tails and damage
//
// After a crash the last log may end in a frame that is not whole, and after a
// power cut what was not synced may be there in any order. So when a frame of the
// last log is not valid, and nothing says that it had been on disk, the tail is
// cut off there and reported in [Found].
//
// Two things say so: the mark, and any valid frame behind it whose synced lies behind it
// too. Then it is damage. It is damage, too, when a file is missing, is shorter than it
// must be, or is another file of that name; when a file has data and the manifest does not
// name it; and when any file but the last log is not whole. Opening then fails with a
// [CorruptError], which names the file, the offset and how much is lost, and changes
// nothing. [Check] tells how much can be read, and [Repair] keeps that.
//
// # Promises
//
//   - With [Always] what [Log.Wait] has confirmed survives a power cut. Writers
//     that wait at the same time share an fsync.
//   - With [EverySecond] a power cut loses what is younger than two seconds,
//     while an fsync takes less than one; a crash of the process what is
//     younger than some milliseconds.
//   - With [Never] a power cut loses what the operating system had not written.
//   - Always: records are lost from the end only, and a record is there whole
//     or not at all.
//   - A disk that is full, or fails, loses nothing that was confirmed; see
//     [Log.Err]. When a file may not grow, the log goes on in another.
//   - Damage to what was on disk is always an error. After
//     a power cut this holds for what was synced two seconds before it.
//
// TestPowerCut, TestTornTail, TestCorruption, TestDiskFull, TestWriteError,
// TestFileSizeLimit, TestOpenedAfterAKillIsSafe, TestDamage, TestRepair and
// TestFaultsDuringRepair hold them to it; package engine kills processes and cuts the power
// over it.
package aof
