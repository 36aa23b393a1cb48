// Package rdb reads and writes values in the form of Redis' RDB files, which is
// also what DUMP gives and RESTORE takes.
//
// [Payload] and [Parse] are for DUMP and RESTORE: a value with its footer, the
// version of the format and a checksum. What is written can be read by Redis
// 7.0 and later, and by Valkey; a hash whose fields have a time to live by Redis 7.4 and
// later. What is read may come from Redis 4.0 to 8: every encoding of strings,
// lists, sets, sorted sets and hashes but the zipmap of Redis 2.4. Streams and
// the values of modules are refused.
//
// [FileReader] and [FileWriter] are for whole files. A file's values come and
// go as payloads, so that those which no [Value] holds, like streams, can be
// passed on; [Fit] gives a payload the form that an older server takes.
//
// Nothing in a payload or a file is trusted: lengths are checked against the bytes that
// are there before memory is taken.
package rdb

import "errors"

// Version is the version of the format that is written, that of Redis 7.0.
// Values that Redis 7.0 does not know are written with [VersionFieldTTL].
const (
	Version         = 10
	VersionFieldTTL = 12
)

var (
	// ErrChecksum is matched by the error of a payload that was changed on its
	// way, that is none at all, or whose version is newer than VersionFieldTTL.
	ErrChecksum = errors.New("rdb: version or checksum are wrong")
	// ErrFormat is matched by the error of a value that can't be read.
	ErrFormat = errors.New("rdb: bad data format")
	// ErrTooLarge is matched by the error of a value that takes more memory than
	// it may.
	ErrTooLarge = errors.New("rdb: the value is larger than the limit")
)

// Largest is how much memory [Parse] lets a value take, in bytes. Packed by LZF,
// and as elements of a byte or less, a payload of some MiB can say many GiB.
const Largest = 4 << 30

// No Redis goes beyond these. [Check] checks them, [Parse] does not.
const (
	// LargestString is the size of the longest string, in bytes.
	LargestString = 512 << 20
	// LatestExpire is the latest deadline of a field of a hash, in Unix ms.
	LatestExpire = 1<<46 - 1
)

// A Kind is the type of a value.
type Kind uint8

// The types of values.
const (
	String Kind = iota
	List
	Set
	Zset
	Hash
)

// A Value is one value of a key. The zero value is the empty string.
type Value struct {
	Kind Kind
	// Str is the string.
	Str []byte
	// Elements are those of the list, the members of the set or sorted set,
	// or the fields of the hash.
	Elements [][]byte
	// Scores are those of the members of a sorted set.
	Scores []float64
	// Values are those of the fields of a hash.
	Values [][]byte
	// Expires are the deadlines of the fields of a hash in Unix ms, 0 for
	// none; nil when no field has one.
	Expires []int64
}

// The types of values in the file.
const (
	typeString         = 0
	typeList           = 1
	typeSet            = 2
	typeZset           = 3 // scores as text
	typeHash           = 4
	typeZset2          = 5
	typeListZiplist    = 10
	typeSetIntset      = 11
	typeZsetZiplist    = 12
	typeHashZiplist    = 13
	typeListQuicklist  = 14 // of ziplists
	typeHashListpack   = 16
	typeZsetListpack   = 17
	typeListQuicklist2 = 18 // of listpacks
	typeSetListpack    = 20
	typeHashTTL        = 24
	typeHashListpackEx = 25
)
