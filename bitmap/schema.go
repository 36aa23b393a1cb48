package bitmap

import (
	"errors"
	"fmt"
	"strconv"
)

// An Overflow says what an [Incr] does when its field can't hold the sum.
type Overflow uint8

const (
	// Wrap continues at the other end of the range, as integers of Go do. It is the default.
	Wrap Overflow = iota
	// Saturate stays at the end of the range.
	Saturate
	// Fail changes nothing, neither this field nor any other of the call.
	Fail
)

func (o Overflow) String() string {
	switch o {
	case Wrap:
		return "WRAP"
	case Saturate:
		return "SAT"
	case Fail:
		return "FAIL"
	}
	return fmt.Sprintf("Overflow(%d)", uint8(o))
}

// MaxFields is how many fields a record has at most, and how many changes a call makes at most.
const MaxFields = 256

// A Field is an integer of a record.
type Field struct {
	// Name is the name of the field. Several fields may be called _: such a field keeps the place
	// of one that is no longer used, and can't be read or written.
	Name string
	// Type is u1 to u63, unsigned, or i1 to i64, signed: the number of bits, as in BITFIELD.
	Type string
	// Overflow is what an [Incr] does when the field can't hold the sum. Defaults to [Wrap].
	Overflow Overflow
}

// A column is a field and its place.
type column struct {
	Field

	signed   bool
	bits     int
	at       int // its first bit
	min, max int64
}

// A schema is how the records of a [Records] are laid out: field after field, in the
// order in which they were declared.
type schema struct {
	columns []column
	byName  map[string]*column
	bits    int
}

func newSchema(fields []Field) (*schema, error) {
	if len(fields) == 0 || len(fields) > MaxFields {
		return nil, fmt.Errorf("bitmap: %d fields; want 1 to %d", len(fields), MaxFields)
	}
	s := &schema{byName: map[string]*column{}, columns: make([]column, len(fields))}
	var errs []error
	for i, f := range fields {
		c := &s.columns[i]
		*c = column{Field: f, at: s.bits}
		errs = append(errs, c.parse())
		s.bits += c.bits
		switch {
		case f.Name == "":
			errs = append(errs, fmt.Errorf("bitmap: field %d has no name", i))
		case s.byName[f.Name] != nil:
			errs = append(errs, fmt.Errorf("bitmap: two fields have the name %q", f.Name))
		case f.Name != "_":
			s.byName[f.Name] = c
		}
	}
	return s, errors.Join(errs...)
}

// parse reads the type.
func (c *column) parse() (err error) {
	most := 63
	if c.signed = c.Type != "" && c.Type[0] == 'i'; c.signed {
		most = 64
	}
	bits := 0
	if c.Type != "" && (c.signed || c.Type[0] == 'u') {
		bits, _ = strconv.Atoi(c.Type[1:])
	}
	if bits < 1 || bits > most || c.Type[1:] != strconv.Itoa(bits) {
		err = fmt.Errorf("bitmap: field %q has the type %q; want u1 to u63 or i1 to i64", c.Name, c.Type)
		bits = 1
	}
	if c.Overflow > Fail {
		err = errors.Join(err, fmt.Errorf("bitmap: field %q has %v; want Wrap, Saturate or Fail", c.Name, c.Overflow))
	}
	c.bits = bits
	if c.signed {
		c.min, c.max = -1<<(bits-1), 1<<(bits-1)-1
	} else {
		c.max = 1<<bits - 1
	}
	return err
}

// find returns the column of a name.
func (s *schema) find(name string) (*column, error) {
	c := s.byName[name]
	if c == nil {
		return nil, fmt.Errorf("bitmap: there is no field %q", name)
	}
	return c, nil
}

// of reads the field from a record. Bits beyond the end of the record are zero.
func (c *column) of(record string) int64 {
	var v uint64
	for at := c.at; at < c.at+c.bits; at++ {
		v <<= 1
		if at/8 < len(record) && record[at/8]&(0x80>>(at%8)) != 0 {
			v |= 1
		}
	}
	if c.signed && v>>(c.bits-1) == 1 {
		v |= ^uint64(0) << (c.bits - 1)
	}
	return int64(v)
}
