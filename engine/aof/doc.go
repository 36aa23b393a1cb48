// Package aof is the append-only log that makes the embedded engine durable.
//
//	log, found, err := aof.Open(fs, aof.Options{Fsync: aof.Always, Compact: fold}, replay)
//	end := log.Append(0, [][][]byte{{[]byte("SET"), []byte("k"), []byte("v")}})
//	err = log.Wait(end) // now the record is on disk
//
// # Directory
//
//	lock           held by the process that has the directory open, whose number is in it
//	0000000003.base  what the logs 1 to 3 amount to
//	0000000004.log   what was appended since, in one log or several
//	*.tmp            a base that is being written
//	reserve          four megabytes that are given up when the disk is full
//
// Opening reads the latest base, then the logs behind it, whose numbers must
// have no gap. Numbers have ten decimal digits. What a base has made
// superfluous, and what ends in .tmp, is removed.
//
// # File
//
// Bases and logs have one format. Integers are little-endian, checksums
// CRC-32C. A file is a header and any number of frames:
//
//	offset  size
//	0       8     "redoubtL"
//	8       4     version, 1
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
// one follows, and of a log that was closed.
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
// # Torn tails
//
// After a crash the last log may end in a frame that is not whole, and after a
// power cut what was not synced may be there in any order. When a frame of the
// last log is not valid, the rest of the file is searched for a valid frame
// whose synced lies behind it. If there is one, the frame had been on disk, so
// this is corruption: opening fails with a [CorruptError], which names the file
// and the offset. If there is none, nothing from there on was known to be on
// disk: the tail is cut off and reported in [Found]. Everything but the last
// log must be whole.
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
//     [Log.Err].
//
// TestPowerCut, TestTornTail, TestCorruption and TestDiskFull hold them to it;
// package engine kills processes and cuts the power over it.
package aof
