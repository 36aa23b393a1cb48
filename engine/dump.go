package engine

const (
	dumpArgs  = 512 // arguments of one command of a dump
	dumpBytes = 64 << 10
)

// A dumper makes commands of many elements from elements.
type dumper struct {
	emit  func(args [][]byte)
	head  int
	args  [][]byte
	bytes int
}

func (d *dumper) begin(head ...[]byte) {
	d.args, d.head, d.bytes = append(d.args[:0], head...), len(head), 0
}

func (d *dumper) add(parts ...[]byte) {
	d.args = append(d.args, parts...)
	for _, p := range parts {
		d.bytes += len(p)
	}
	if len(d.args) >= dumpArgs || d.bytes >= dumpBytes {
		d.end()
	}
}

func (d *dumper) end() {
	if len(d.args) > d.head {
		d.emit(d.args)
	}
	d.args, d.bytes = d.args[:d.head], 0
}

// dump gives the commands that make a key which is not there like it. What
// emit is given is true until it returns.
func dump(it *item, emit func(args [][]byte)) {
	key := view(it.key)
	d := dumper{emit: emit}
	switch it.val.kind() {
	case kindString:
		emit([][]byte{[]byte("SET"), key, it.val.str})
	case kindList:
		d.begin([]byte("RPUSH"), key)
		asList(it).all(func(s string) bool { d.add(view(s)); return true })
	case kindSet:
		d.begin([]byte("SADD"), key)
		asSet(it).each(func(m []byte) bool { d.add(clone(m)); return true })
	case kindZset:
		d.begin([]byte("ZADD"), key)
		for at := asZset(it).first(); at.ok(); at = at.next() {
			d.add(appendDouble(nil, at.score()), view(at.member()))
		}
	case kindHash:
		d.begin([]byte("HSET"), key)
		asHash(it).each(func(name string, f field) bool { d.add(view(name), view(f.value)); return true })
	}
	if d.args != nil {
		d.end()
	}
	if it.val.kind() == kindHash {
		asHash(it).each(func(name string, f field) bool {
			if f.expire != 0 {
				emit([][]byte{[]byte("HPEXPIREAT"), key, appendInt(nil, f.expire), []byte("FIELDS"), []byte("1"), view(name)})
			}
			return true
		})
	}
	if it.val.expire != 0 {
		emit([][]byte{[]byte("PEXPIREAT"), key, appendInt(nil, it.val.expire)})
	}
}

// dumpAll gives the commands that make an empty engine like this one, which
// nobody uses meanwhile.
func (e *Engine) dumpAll(emit func(db int, commands [][][]byte) error) (err error) {
	var one [1][][]byte
	for i := range e.shards {
		for db, ks := range e.shards[i].dbs {
			if ks == nil {
				continue
			}
			ks.keys.each(func(it *item) bool {
				dump(it, func(args [][]byte) {
					if one[0] = args; err == nil {
						err = emit(db, one[:])
					}
				})
				return err == nil
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}
