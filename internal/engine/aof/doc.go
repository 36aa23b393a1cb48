// Package aof is the append-only log that makes the embedded engine durable.
//
//	log, found, err := aof.Open(fs, aof.Options{Fsync: aof.Always, Fold: fold}, replay)
//	end := log.Append(0, [][][]byte{{[]byte("SET"), []byte("k"), []byte("v")}})
//	err = log.Wait(end) // now the record is on disk
//
// # Directory
//
//	lock             held by the process that has the directory open; contains its PID
//	manifest         names the base and the logs, and says how long they are
//	0000000003.base  the records of the logs 1 to 3, compacted
//	0000000004.log   later records, in one log or several
//	*.tmp            a base or a manifest that is being written
//	*.damaged        files that [Repair] has replaced, the manifest too
//	reserve          four megabytes that the log deletes when the disk is full
//
// Opening reads the files that the manifest names: the base, then the logs in
// order. Numbers have ten decimal digits. It removes the logs that a base replaces, and files whose
// names end in .tmp.
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
// Each line has the id of its file. The sum is the CRC-32C of the lines before it. A
// file is as long as its line says, and the last log at least as long.
//
// The last sector is the mark. It says how much of the last log is on disk. The writer
// overwrites it in place after each fsync of the log, before clients get their
// replies. Another goroutine syncs the mark once a second at most. So a kill
// loses no mark, and a power cut loses the marks of the last second or two. The sum covers
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
// A frame is written in one piece, and holds whole records:
//
//	0       4     "RDf1"
//	4       4     checksum of the id and of the rest of the frame
//	8       4     length of the payload in bytes
//	12      4     kind: 1 records, 2 seal
//	16      8     offset of the frame in its file
//	24      8     synced: how many bytes of the file were known to be on disk
//	              when the frame was made
//	32            payload
//
// A seal has no payload. It is the last frame of a base, of a log that another
// one follows, and of a log that was closed, unless the file could not grow.
//
// A payload of kind 1 is any number of records. A record is a set of changes
// that were committed together; a replay repeats all of them or none:
//
//	uvarint  length of the rest
//	uvarint  database
//	uvarint  number of commands
//	         for each: uvarint number of arguments; for each: uvarint length, bytes
//
// The commands are Redis commands. Repeat them in order, with a clock that stands still:
// deadlines are absolute, and the log has a command that deletes each expired
// key. SELECT changes the database for the rest of its record.
//
// # Torn tails and damage
//
// After a crash the last log may end in a frame that is not whole. After a power cut any part of the
// unsynced data may be there. So opening cuts the last log off at its first invalid frame, and reports
// that in [Found], unless the frame is known to have been on disk.
//
// Two things show that it had been on disk: the mark, and any later valid frame whose synced is greater.
// Then the log is damaged. A directory is damaged, too, when a file is missing, is shorter than it must
// be, or is another file of that name; when a file has data and the manifest does not name it; and when
// any file but the last log is not whole. Opening a damaged directory fails with a [CorruptError], which
// names the file, the offset and the size of the loss, and changes nothing. [Check] counts the readable
// records, and [Repair] keeps them.
//
// # Promises
//
//   - With [Always] every confirmed record survives a power cut: every one that [Log.Wait] has
//     confirmed.
//   - Concurrent callers share an fsync.
//   - Records are lost from the end only.
//   - A record is there whole or not at all.
//   - A full or failing disk loses no confirmed record; see [Log.Err].
//   - A limit on the size of a file loses no record; the log goes on in another file.
//   - Damage of data that was on disk is an error, which names the place. After a power cut this holds
//     for data that was synced two seconds before it.
//
// With [EverySecond] a power cut loses at most the records of the last two seconds, if an fsync takes
// less than one; a crash of the process loses the records of the last milliseconds. With [Never] a
// power cut loses the records that the operating system had not written. Tests of internal/engine cut
// the power and kill the process under each policy.
package aof
