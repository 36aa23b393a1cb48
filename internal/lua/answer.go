package lua

import (
	"errors"
	"strings"
)

var errReplySize = errors.New("lua: reply exceeds the memory limit")

// answer writes what a script returned. A table can be a short cyclic one
// that stands for an endless reply, so one with tables inside is measured
// first; a reply that is begun is always finished.
func (st *state) answer(w Writer, v value) (err error) {
	if t, ok := v.o.(*table); ok && (len(t.nodes) > 0 || nested(t)) {
		if err := st.measure(v); err != nil {
			return st.stopped(w, err)
		}
	}
	st.answering = true
	st.main.writeReply(w, v, 2)
	return nil
}

// nested reports whether an array's reply could be larger than the array.
func nested(t *table) bool {
	for i := range t.arr {
		switch x := t.arr[i].o.(type) {
		case *table:
			return true
		case *str:
			if len(x.s) > 1024 {
				return true
			}
		}
	}
	return false
}

func (st *state) measure(v value) (err error) {
	defer func() {
		if r := recover(); r != nil {
			e, ok := r.(*luaError)
			if !ok {
				panic(r)
			}
			err = e.cause
		}
	}()
	st.main.writeReply(&sizer{st: st, limit: st.memLimit}, v, 2)
	return nil
}

// A sizer is a Writer that only counts.
type sizer struct {
	st          *state
	size, limit int
}

func (s *sizer) count(n int) {
	s.st.work(1)
	if s.size += n + 16; s.size > s.limit {
		s.st.abort(errReplySize)
	}
}

func (s *sizer) Null()                { s.count(0) }
func (s *sizer) NullArray()           { s.count(0) }
func (s *sizer) Int(int64)            { s.count(8) }
func (s *sizer) Bulk(b []byte)        { s.count(len(b)) }
func (s *sizer) BulkString(t string)  { s.count(len(t)) }
func (s *sizer) Status(t string)      { s.count(len(t)) }
func (s *sizer) Error(t string)       { s.count(len(t)) }
func (s *sizer) Double(float64)       { s.count(8) }
func (s *sizer) Bool(bool)            { s.count(1) }
func (s *sizer) BigNumber(t string)   { s.count(len(t)) }
func (s *sizer) Verbatim(_, t string) { s.count(len(t)) }
func (s *sizer) Array(int)            { s.count(0) }
func (s *sizer) Set(int)              { s.count(0) }
func (s *sizer) Map(int)              { s.count(0) }

// stopped writes the reply for a run that ended early.
func (st *state) stopped(w Writer, err error) error {
	st.answering = true
	if se, ok := errors.AsType[*ScriptError](err); ok {
		w.Error(se.Text)
		return err
	}
	if errors.Is(err, ErrKilled) {
		w.Error("ERR Script killed by user with SCRIPT KILL..." + st.stoppedAt)
		return err
	}
	w.Error("ERR " + strings.TrimPrefix(err.Error(), "lua: ") + st.stoppedAt)
	return err
}
