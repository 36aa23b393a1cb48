//go:build unix

package supervise

import (
	"encoding/binary"
	"fmt"
	"io"
)

// A record is a message between redoubt and the guard: one byte for its kind
// and eight for its value, big-endian. It is smaller than PIPE_BUF, so a pipe
// never splits it.
type record struct {
	kind  kind
	value int64
}

type kind byte

const (
	// From redoubt to the guard. The first three come once, before the first deadline. The first deadline
	// starts the command.
	recGroup    kind = 'p' // process group for the command
	recGrace    kind = 'g' // ns
	recMargin   kind = 'm' // ns
	recDeadline kind = 'd' // instant
	recSignal   kind = 's' // number of a signal to forward
	recLost     kind = 'l' // the lease is lost: kill

	// From the guard to redoubt, once the command has started.
	recStarted kind = 'c' // its pid

	// From the guard to redoubt: exactly one of these, as its last record.
	recExited  kind = 'x' // the command's status
	recEnded   kind = 'e' // it was ended because of the lease; its status
	recNoStart kind = 'n' // it could not be started: errno
)

const recordSize = 9

func writeRecord(w io.Writer, k kind, value int64) error {
	var b [recordSize]byte
	b[0] = byte(k)
	binary.BigEndian.PutUint64(b[1:], uint64(value))
	_, err := w.Write(b[:])
	return err
}

// readRecord returns io.EOF only between two records.
func readRecord(r io.Reader) (record, error) {
	var b [recordSize]byte
	if _, err := io.ReadFull(r, b[:]); err != nil {
		return record{}, err
	}
	rec := record{kind(b[0]), int64(binary.BigEndian.Uint64(b[1:]))}
	switch rec.kind {
	case recGroup, recGrace, recMargin, recDeadline, recSignal, recLost, recStarted, recExited, recEnded, recNoStart:
		return rec, nil
	}
	return record{}, fmt.Errorf("supervise: record of unknown kind %q", b[0])
}
