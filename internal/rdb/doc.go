// Package rdb reads and writes values in the format of Redis' RDB files, which DUMP and RESTORE use
// too.
//
// [Payload] and [Parse] are for DUMP and RESTORE: a value with its footer, the
// version of the format and a checksum. Redis 7.0 and later read its output, and so does Valkey;
// a hash whose fields have a time to live needs Redis 7.4. The package reads values of Redis 4.0
// to 8: every encoding of strings, lists, sets, sorted sets, hashes and streams but the zipmap of Redis
// 2.4. It refuses the values of modules.
//
// [FileReader] and [FileWriter] are for whole files. A file's values come and
// go as payloads, so values that no [Value] holds, like the values of modules, can be passed on.
// [Fit] converts a payload to the format of an older server.
//
// The package trusts no payload and no file: it checks each length against the bytes that follow
// before it allocates memory.
package rdb

import (
	"errors"

	"github.com/redoubt-go/redoubt/internal/stream"
)

// Version is the version of the written format, which Redis 7.0 introduced. Values that
// Redis 7.0 does not know are written with [VersionFieldTTL].
const (
	Version         = 10
	VersionFieldTTL = 12
)

var (
	// ErrChecksum is matched by the error of a payload that was damaged, that is no payload, or
	// whose version is newer than VersionFieldTTL.
	ErrChecksum = errors.New("rdb: version or checksum are wrong")
	// ErrFormat is matched by the error of a value that can't be read.
	ErrFormat = errors.New("rdb: bad data format")
	// ErrTooLarge is matched by the error of a value that would need more memory than
	// allowed.
	ErrTooLarge = errors.New("rdb: the value is larger than the limit")
)

// Largest is how much memory [Parse] lets a value take, in bytes. With LZF and elements of a
// byte or less, a payload of some MiB can describe a value of many GiB.
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
	Stream
)

// A Value is one value of a key. The zero value is the empty string.
type Value struct {
	Kind Kind
	// Str is the string.
	Str []byte
	// Elements are the elements of a list, the members of a set or sorted set, or the
	// fields of a hash.
	Elements [][]byte
	// Scores are the scores of a sorted set's members.
	Scores []float64
	// Values are the values of a hash's fields.
	Values [][]byte
	// Expires are the deadlines of the fields of a hash in Unix ms, 0 for
	// none; nil when no field has one.
	Expires []int64
	// Stream is the stream. Payload reads it, Parse makes it.
	Stream *stream.Stream
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

	typeStreamListpacks  = 15
	typeStreamListpacks2 = 19 // since Redis 7.0
	typeStreamListpacks3 = 21 // since Redis 7.2
)
