package geo

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"

	"github.com/redoubt-go/redoubt/internal/randid"
)

// A step is one move of a member from one cell to another, into the index or out of it. Its id is 8 random
// bytes.
type step string

const stepBytes = 8

func newStep() step { return step(randid.Bytes(stepBytes)) }

// A home says in which cell a member is, and since which step: the id of the step, and then the first and
// the last address of the cell, 8 bytes each. The cell may have been split since.
type home struct {
	step step
	cell cell
}

func (h home) text() string {
	if h == (home{}) {
		return ""
	}
	return string(h.step) + h.cell.bytes()
}

func (c cell) bytes() string {
	b := binary.BigEndian.AppendUint64(nil, uint64(c.first))
	return string(binary.BigEndian.AppendUint64(b, uint64(c.last)))
}

func parseHome(text string) (home, error) {
	if len(text) != 24 {
		return home{}, fmt.Errorf("geo: the home of a member has %d bytes, want 24: something else has written it", len(text))
	}
	return home{step(text[:8]), parseCell(text[8:])}, nil
}

func parseCell(text string) cell {
	return cell{address(binary.BigEndian.Uint64([]byte(text))), address(binary.BigEndian.Uint64([]byte(text[8:])))}
}

// A record says where a member went that has left a cell: the ids of the step and of the one before; the
// zone, a digit, or '-' when the member was removed; the score in 8 bytes; the cell in 16; and the member.
//
// The cell is the one where the member was announced. When it is split after the member has arrived and
// moved within it, no process can tell later which part has the member.
type record struct {
	step, before step
	removed      bool
	to           place
	into         cell
	member       string
}

func (r record) text() string {
	zone := byte('-')
	if !r.removed {
		zone = '0' + r.to.zone
	}
	b := append([]byte(string(r.step)+string(r.before)), zone)
	return string(binary.BigEndian.AppendUint64(b, r.to.score)) + r.into.bytes() + r.member
}

func parseRecord(text string) (record, error) {
	if len(text) < 41 || text[16] != '-' && (text[16] < '0' || text[16] >= '0'+zones) {
		return record{}, fmt.Errorf("geo: a record of %d bytes is none: something else has written it", len(text))
	}
	r := record{step: step(text[:8]), before: step(text[8:16]), removed: text[16] == '-', member: text[41:]}
	if !r.removed {
		r.to = place{text[16] - '0', binary.BigEndian.Uint64([]byte(text[17:]))}
		r.into = parseCell(text[25:])
	}
	return r, nil
}

// timed parts a text that begins with a time in µs and a space.
func timed(text string) (at int64, rest string, err error) {
	µs, rest, ok := strings.Cut(text, " ")
	if at, err = strconv.ParseInt(µs, 10, 64); err != nil || !ok {
		return 0, "", fmt.Errorf("geo: %q begins with no time: something else has written it", text)
	}
	return at, rest, nil
}

func parseScore(text string) (uint64, error) {
	score, err := strconv.ParseUint(text, 10, 64)
	if err != nil || score >= 1<<scoreBits {
		// The engine and some servers write large scores with an exponent.
		f, ferr := strconv.ParseFloat(text, 64)
		if ferr != nil || f < 0 || f >= 1<<scoreBits {
			return 0, fmt.Errorf("geo: the score %q is that of no place: something else has written it", text)
		}
		return uint64(f), nil
	}
	return score, nil
}
