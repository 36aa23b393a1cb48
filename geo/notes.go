package geo

import (
	"errors"
	"fmt"
	"strings"
)

// readPoints reads the members and hashes that GEOSEARCH returned.
func readPoints(v any, zone uint8) ([]point, error) {
	a, ok := v.([]any)
	if !ok || len(a)%2 != 0 {
		return nil, fmt.Errorf("geo: search.lua found %v, want members and their hashes", v)
	}
	points := make([]point, len(a)/2)
	for i := range points {
		member, ok := a[2*i].(string)
		score, isInt := a[2*i+1].(int64)
		if !ok || !isInt {
			return nil, fmt.Errorf("geo: search.lua found %v and %v, want a member and its hash", a[2*i], a[2*i+1])
		}
		points[i] = point{member, place{zone, uint64(score)}} //nolint:gosec // 52 bits
	}
	return points, nil
}

// An announced is a member that a cell expects.
type announced struct {
	arrival
	at int64 // when it was announced, by the cell's clock, in µs
}

// readArrivals reads all fields of a cell's arriving.
func readArrivals(v any, zone uint8) ([]announced, error) {
	a, ok := v.([]any)
	if !ok {
		return nil, fmt.Errorf("geo: search.lua found %v, want the announced members", v)
	}
	var items []announced
	for i := 0; i+1 < len(a); i += 2 {
		name, _ := a[i].(string)
		value, _ := a[i+1].(string)
		if len(name) < 9 {
			return nil, fmt.Errorf("geo: %q is announced to a cell: something else has written it", name)
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

// A view is what a cell holds, and what it knows of the members that left it.
type view struct {
	now      int64
	points   []point
	arriving []announced
	leaving  []left // may not have arrived
	left     []left
	steps    []step // that brought the members that left
}

// readView reads a reply of search.lua, without its status.
func readView(rest []any, zone uint8) (v view, err error) {
	if len(rest) != 5 {
		return v, fmt.Errorf("geo: search.lua answered %d values, want 5", len(rest))
	}
	v.now, _ = rest[0].(int64)
	if v.points, err = readPoints(rest[1], zone); err != nil {
		return v, err
	}
	if v.arriving, err = readArrivals(rest[2], zone); err != nil {
		return v, err
	}
	leaving, ok := rest[3].([]any)
	done, ok2 := rest[4].([]any)
	if !ok || !ok2 {
		return v, errors.New("geo: search.lua answered without arrays")
	}
	for i := 1; i < len(leaving); i += 2 {
		text, _ := leaving[i].(string)
		l, err := parseLeft(text)
		if err != nil {
			return v, err
		}
		v.leaving = append(v.leaving, l)
	}
	for _, d := range done {
		text, _ := d.(string)
		if len(text) == stepBytes {
			v.steps = append(v.steps, step(text))
			continue
		}
		r, err := parseRecord(text)
		if err != nil {
			return v, err
		}
		v.left = append(v.left, left{record: r})
	}
	return v, nil
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
