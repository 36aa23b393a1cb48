package rdb

import (
	"errors"
	"fmt"
)

// An Entry is one key of a file.
type Entry struct {
	// DB is the number of the database.
	DB  int
	Key []byte
	// Deadline is when the key expires, in Unix ms, 0 for never. It may have
	// passed.
	Deadline int64
	// Payload is the value as DUMP gives it, with the least version that knows
	// its form. [Unsupported] tells whether [Parse] can read it.
	Payload []byte
}

// A FileError says where a file is broken.
type FileError struct {
	Offset int64 // of the byte behind the last that made sense
	Reason string
}

func (e *FileError) Error() string {
	return fmt.Sprintf("rdb: the file can't be read at byte %d: %s", e.Offset, e.Reason)
}

// ErrNewer is matched by the error of a value that the wanted version of the format can't hold.
var ErrNewer = errors.New("rdb: the value needs a newer version of the format")

// streamDB is the name of the database of a replication stream.
const streamDB = "repl-stream-db"

// Codes that stand in a file in the place of a type.
const (
	opSlotInfo   = 244
	opFunction   = 245
	opModuleAux  = 247
	opIdle       = 248
	opFreq       = 249
	opAux        = 250
	opResize     = 251
	opExpireMS   = 252
	opExpire     = 253
	opSelect     = 254
	opEnd        = 255
	endVersion   = 5 // the first with a checksum at the end
	valkeyOldest = 80
)

// The types of values that a file may hold and a [Value] can't.
const (
	typeModule2    = 7
	typeHashZipmap = 9
	typeHashValkey = 22 // of Valkey 9, in files and payloads from version 80 on
)

// Unsupported returns the type of a payload that [Parse] can't read, like "value of a module", or "" when Parse can
// read it. For a broken payload it may return either.
func Unsupported(payload []byte) string {
	if len(payload) == 0 {
		return "nothing"
	}
	switch t := payload[0]; t {
	case typeString, typeList, typeSet, typeZset, typeHash, typeZset2, typeListZiplist, typeSetIntset, typeZsetZiplist,
		typeHashZiplist, typeListQuicklist, typeHashListpack, typeZsetListpack, typeListQuicklist2, typeSetListpack,
		typeHashTTL, typeHashListpackEx, typeStreamListpacks, typeStreamListpacks2, typeStreamListpacks3:
		return ""
	case typeModule2:
		return "value of a module"
	case typeHashZipmap:
		return "hash of Redis 2.4"
	case typeHashValkey:
		if version(payload) >= valkeyOldest {
			return ""
		}
		fallthrough
	default:
		return fmt.Sprintf("value of type %d", t)
	}
}

// FieldTTL reports whether a payload is a hash whose fields have a time to live.
func FieldTTL(payload []byte) bool {
	return len(payload) > 0 && (payload[0] == typeHashTTL || payload[0] == typeHashListpackEx ||
		payload[0] == typeHashValkey && version(payload) >= valkeyOldest)
}

// since returns the first version of the format with a type, as far back as
// DUMP of Redis 5.0.
func since(t byte) int {
	switch t {
	case typeHashListpack, typeZsetListpack, typeListQuicklist2, typeStreamListpacks2:
		return 10
	case typeSetListpack, typeStreamListpacks3:
		return 11
	case typeHashTTL, typeHashListpackEx:
		return VersionFieldTTL
	default:
		return 9
	}
}
