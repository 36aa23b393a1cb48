package scan

import (
	"fmt"
	"strconv"

	"github.com/redoubt-go/redoubt"
)

// ElementQuery selects elements of a key. The zero value selects all elements.
type ElementQuery struct {
	// Match is a pattern for fields or members, as [Query.Match].
	Match string
	// From is a token of [Iterator.Token], as [Query.From].
	From string
}

// A Field is a field of a hash with its value.
type Field struct{ Name, Value string }

// A Member is a member of a sorted set with its score.
type Member struct {
	Name  string
	Score float64
}

// Hash returns an iterator over the fields of the hash at key, a whole key without the client's prefix. It
// sends nothing yet. A key that does not exist has no fields. For a key of another type the loop ends with
// an error that matches [redoubt.ErrWrongType].
func (s *Scanner) Hash(key string, q ElementQuery) (*Iterator[Field], error) {
	return elements(s, key, q, "HSCAN", func(f Field) string { return f.Name }, func(raw []string) ([]Field, error) {
		fields := make([]Field, 0, len(raw)/2)
		for i := 0; i+1 < len(raw); i += 2 {
			fields = append(fields, Field{raw[i], raw[i+1]})
		}
		return fields, nil
	})
}

// Set returns an iterator over the members of the set at key: see [Scanner.Hash].
func (s *Scanner) Set(key string, q ElementQuery) (*Iterator[string], error) {
	return elements(s, key, q, "SSCAN", itself, readTexts)
}

// SortedSet returns an iterator over the members of the sorted set at key, in no particular order: see
// [Scanner.Hash].
func (s *Scanner) SortedSet(key string, q ElementQuery) (*Iterator[Member], error) {
	return elements(s, key, q, "ZSCAN", func(m Member) string { return m.Name }, func(raw []string) ([]Member, error) {
		members := make([]Member, 0, len(raw)/2)
		for i := 0; i+1 < len(raw); i += 2 {
			score, err := strconv.ParseFloat(raw[i+1], 64)
			if err != nil {
				return nil, fmt.Errorf("scan: the score of %q: %w", raw[i], err)
			}
			members = append(members, Member{raw[i], score})
		}
		return members, nil
	})
}

func elements[T any](s *Scanner, key string, q ElementQuery, command string, id func(T) string, read func([]string) ([]T, error)) (*Iterator[T], error) {
	if err := redoubt.CheckPattern(q.Match); err != nil {
		return nil, fmt.Errorf("%w: Match: %w", ErrInvalidOption, err)
	}
	w := &elementWalk{client: s.client, key: key, match: q.Match, command: command, count: s.opts.Count}
	if q.From != "" {
		if err := w.resume(q.From); err != nil {
			return nil, err
		}
	}
	return &Iterator[T]{walk: w, read: read, id: id, seen: newSeen(s.opts.Remember)}, nil
}
