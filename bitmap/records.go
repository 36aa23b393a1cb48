package bitmap

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"time"

	"github.com/redoubt-go/redoubt"
	wire "github.com/redoubt-go/redoubt/internal/wire/bitmap"
)

// recordPart ends the key of a record.
const recordPart = "record"

// RecordOptions configure [Records].
type RecordOptions struct {
	// Fields are the fields of a record, 1 to [MaxFields], in this order. Every program that uses
	// the records must declare the same fields. New fields may be added at the end; they are zero
	// in older records. Rename a field that is no longer used to _.
	Fields []Field
	// TTL is how long a record is kept after its last change, in whole milliseconds.
	// Defaults to 0: for ever.
	TTL time.Duration
}

// Records are records of small integers on a server, each with a name and the same fields, packed
// into bits. Make one for each kind. It keeps no state and need not be closed. All methods may be
// called by many goroutines at once.
type Records struct {
	client *redoubt.Client
	schema *schema
	ttl    time.Duration
}

// NewRecords returns Records on client. It sends nothing.
func NewRecords(client *redoubt.Client, opts RecordOptions) (*Records, error) {
	var errs []error
	if client == nil {
		errs = append(errs, errors.New("bitmap: client is nil"))
	}
	s, err := newSchema(opts.Fields)
	if err := errors.Join(append(errs, err, checkTTL(opts.TTL))...); err != nil {
		return nil, err
	}
	return &Records{client: client, schema: s, ttl: opts.TTL}, nil
}

// A Record has the fields of a record as they were when it was read. It does not change.
type Record struct {
	schema *schema
	bits   string
}

// Get returns the value of a field; it is zero if the field was never written. ok is false when
// there is no such field.
func (r Record) Get(field string) (value int64, ok bool) {
	if r.schema == nil {
		return 0, false
	}
	c, err := r.schema.find(field)
	if err != nil {
		return 0, false
	}
	return c.of(r.bits), true
}

// All iterates over the fields and their values, in the order of [RecordOptions].
func (r Record) All() iter.Seq2[string, int64] {
	return func(yield func(string, int64) bool) {
		if r.schema == nil {
			return
		}
		for i := range r.schema.columns {
			if c := &r.schema.columns[i]; c.Name != "_" && !yield(c.Name, c.of(r.bits)) {
				return
			}
		}
	}
}

// A Change is a change of one field: a [Set] or an [Incr].
type Change struct {
	field string
	incr  bool
	value int64
}

// Set gives a field a value. One that the field can't hold is an error.
func Set(field string, value int64) Change { return Change{field: field, value: value} }

// Incr adds to a field; by may be negative. [Field.Overflow] says what happens when the field can't
// hold the sum.
func Incr(field string, by int64) Change { return Change{field: field, incr: true, value: by} }

// args returns the arguments of BITFIELD.
func (s *schema) args(c Change) ([]string, error) {
	col, err := s.find(c.field)
	if err != nil {
		return nil, err
	}
	what := "SET"
	if c.incr {
		what = "INCRBY"
	} else if c.value < col.min || c.value > col.max {
		return nil, fmt.Errorf("bitmap: %d is out of the range of field %q; want %d to %d", c.value, c.field, col.min, col.max)
	}
	return []string{"OVERFLOW", col.Overflow.String(), what, col.Type, strconv.Itoa(col.at), strconv.FormatInt(c.value, 10)}, nil
}

// An Outcome is the result of [Records.Update].
type Outcome struct {
	// Record is the record after the call. It is unchanged if the changes were refused.
	Record Record
	// Overflowed names the field with [Fail] that can't hold its sum. Then nothing was changed. It
	// is empty when all changes were made.
	Overflowed string
}

// Update makes 1 to [MaxFields] changes of the record called name, one after the other. It makes
// all of them, or none if a field with [Fail] can't hold its sum; the outcome then names the field.
// One round trip.
//
// Update is sent once: after an error that matches redoubt.ErrUnknownOutcome the changes may be
// made.
func (rs *Records) Update(ctx context.Context, name string, changes ...Change) (Outcome, error) {
	key, err := rs.client.Key(name, recordPart)
	if len(changes) == 0 || len(changes) > MaxFields {
		err = errors.Join(err, fmt.Errorf("bitmap: %d changes; want 1 to %d", len(changes), MaxFields))
	}
	args := []string{strconv.FormatInt(rs.ttl.Milliseconds(), 10)}
	for _, c := range changes {
		a, e := rs.schema.args(c)
		err = errors.Join(err, e)
		args = append(args, a...)
	}
	if err != nil {
		return Outcome{}, err
	}
	a, err := rs.client.Do(ctx, wire.RecordUpdateCmd(key, args...)).Array()
	if err != nil {
		return Outcome{}, err
	}
	if len(a) != 2 {
		return Outcome{}, fmt.Errorf("bitmap: reply of record_update.lua has %d elements, want 2", len(a))
	}
	refused, err := redoubt.Reply{Val: a[0]}.Int()
	if err != nil || refused < 0 || refused > int64(len(changes)) {
		return Outcome{}, errors.Join(err, fmt.Errorf("bitmap: reply of record_update.lua is %v", a[0]))
	}
	bits, err := redoubt.Reply{Val: a[1]}.Text()
	o := Outcome{Record: Record{schema: rs.schema, bits: bits}}
	if refused > 0 {
		o.Overflowed = changes[refused-1].field
	}
	return o, err
}

// Incr adds to one field and returns its new value. ok is false when the field has [Fail] and can't
// hold the sum; then the value is unchanged. See [Records.Update].
func (rs *Records) Incr(ctx context.Context, name, field string, by int64) (value int64, ok bool, err error) {
	o, err := rs.Update(ctx, name, Incr(field, by))
	if err != nil {
		return 0, false, err
	}
	value, _ = o.Record.Get(field)
	return value, o.Overflowed == "", nil
}

// Load returns the record called name. All fields are zero if it was never written. One round trip,
// one GET.
func (rs *Records) Load(ctx context.Context, name string) (Record, error) {
	all, err := rs.LoadMany(ctx, []string{name})
	if err != nil {
		return Record{}, err
	}
	return all[0], nil
}

// LoadMany is Load for several names. One round trip to each server.
func (rs *Records) LoadMany(ctx context.Context, names []string) ([]Record, error) {
	cmds := make([]redoubt.Cmd, len(names))
	for i, name := range names {
		key, err := rs.client.Key(name, recordPart)
		if err != nil {
			return nil, err
		}
		cmds[i] = read("GET", key)
	}
	all := make([]Record, len(names))
	for i, r := range send(ctx, rs.client, cmds) {
		all[i].schema = rs.schema
		if r.IsNil() {
			continue
		}
		var err error
		if all[i].bits, err = r.Text(); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// Delete deletes the record called name. It reports whether the record existed. One round trip.
func (rs *Records) Delete(ctx context.Context, name string) (deleted bool, err error) {
	return unlink(ctx, rs.client, name, recordPart)
}

// List iterates over the names of records, of any fields, that match a pattern: see
// [Calendars.List].
func (rs *Records) List(ctx context.Context, match string) iter.Seq2[string, error] {
	return rs.client.Names(ctx, recordPart, "string", match)
}
