package geo

import (
	"errors"
	"fmt"
	"strings"

	"github.com/redoubt-go/redoubt"
)

// readPoints reads the reply to a GEOSEARCH WITHHASH.
func readPoints(r redoubt.Reply, zone uint8) ([]point, error) {
	a, err := r.Array()
	if err != nil {
		return nil, err
	}
	points := make([]point, len(a))
	for i, v := range a {
		pair, ok := v.([]any)
		if !ok || len(pair) != 2 {
			return nil, fmt.Errorf("geo: GEOSEARCH found %v, want a member and its hash", v)
		}
		member, ok := pair[0].(string)
		score, isInt := pair[1].(int64)
		if !ok || !isInt {
			return nil, fmt.Errorf("geo: GEOSEARCH found %v, want a member and its hash", v)
		}
		points[i] = point{member, place{zone, uint64(score)}} //nolint:gosec // 52 bits
	}
	return points, nil
}

// An announced is a member that is to come to a cell.
type announced struct {
	arrival
	at int64 // when it was announced, by the cell's clock, in µs
}

// readArrivals reads all fields of a cell's arriving.
func readArrivals(r redoubt.Reply, zone uint8) ([]announced, error) {
	a, err := r.Array()
	if err != nil || len(a) == 0 {
		return nil, err
	}
	var items []announced
	for i := 0; i+1 < len(a); i += 2 {
		name, _ := a[i].(string)
		value, _ := a[i+1].(string)
		if len(name) < 9 {
			return nil, fmt.Errorf("geo: %q is to come to a cell: something else has written it", name)
		}
		at, text, err := timed(value)
		if err != nil {
			return nil, err
		}
		score, err := parseScore(text)
		if err != nil {
			return nil, err
		}
		items = append(items, announced{arrival{step: step(name[:8]), member: name[8:], to: place{zone, score}}, at})
	}
	return items, nil
}

// A left is a member that has left a cell.
type left struct {
	record
	at   int64  // when, by the cell's clock, in µs; 0 if it is known to have arrived
	from uint64 // its score before
}

// A notes is what a cell says beside its members.
type notes struct {
	now     int64
	leaving []left // may not have arrived
	left    []left
	steps   []step // that brought those who left
}

// readNotes reads a reply of notes.lua, without its status.
func readNotes(rest []any) (notes, error) {
	var n notes
	if len(rest) != 3 {
		return n, fmt.Errorf("geo: notes.lua answered %d values, want 3", len(rest))
	}
	n.now, _ = rest[0].(int64)
	leaving, ok := rest[1].([]any)
	done, ok2 := rest[2].([]any)
	if !ok || !ok2 {
		return n, errors.New("geo: notes.lua answered without arrays")
	}
	for i := 1; i < len(leaving); i += 2 {
		text, _ := leaving[i].(string)
		l, err := parseLeft(text)
		if err != nil {
			return n, err
		}
		n.leaving = append(n.leaving, l)
	}
	for _, v := range done {
		text, _ := v.(string)
		if len(text) == stepBytes {
			n.steps = append(n.steps, step(text))
			continue
		}
		r, err := parseRecord(text)
		if err != nil {
			return n, err
		}
		n.left = append(n.left, left{record: r})
	}
	return n, nil
}

// parseLeft reads a field of a cell's leaving: the time, the score before, and the
// record.
func parseLeft(text string) (l left, err error) {
	var rest string
	if l.at, rest, err = timed(text); err != nil {
		return l, err
	}
	score, rest, _ := strings.Cut(rest, " ")
	if l.from, err = parseScore(score); err != nil {
		return l, err
	}
	l.record, err = parseRecord(rest)
	return l, err
}
