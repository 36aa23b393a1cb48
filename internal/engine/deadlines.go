package engine

// deadlines holds elements by their times, the earliest first. It is a binary heap whose elements
// know their places, so that each can be moved or removed. It grows by pieces: a slice of millions
// would be copied as a whole when it is full, with the shard locked. The zero value is empty.
type deadlines[T placed] struct {
	pieces [][]due[T]
	n      int
}

type due[T any] struct {
	at int64
	v  T
}

// placed is an element that stores its place in a heap, -1 for none.
type placed interface{ place() *int32 }

const (
	pieceBits = 10
	pieceMask = 1<<pieceBits - 1
)

func (d *deadlines[T]) len() int { return d.n }

// at returns a member; the first is the earliest.
func (d *deadlines[T]) at(i int) *due[T] { return &d.pieces[i>>pieceBits][i&pieceMask] }

// before counts the members from place i down that are earlier than a time.
func (d *deadlines[T]) before(i int, time int64) int {
	if i >= d.n || d.at(i).at >= time {
		return 0
	}
	return 1 + d.before(2*i+1, time) + d.before(2*i+2, time)
}

// set gives v a time, or takes it out with 0.
func (d *deadlines[T]) set(v T, at int64) {
	i := int(*v.place())
	switch {
	case at == 0 && i < 0:
	case at == 0:
		d.remove(i)
	case i < 0:
		d.push(due[T]{at, v})
		d.up(d.n - 1)
	default:
		d.at(i).at = at
		d.up(i)
		d.down(int(*v.place()))
	}
}

func (d *deadlines[T]) push(x due[T]) {
	last := d.n >> pieceBits
	switch {
	case last < len(d.pieces):
	case last == 0: // most heaps are small
		d.pieces = append(d.pieces, nil)
	default:
		d.pieces = append(d.pieces, make([]due[T], 0, 1<<pieceBits))
	}
	d.pieces[last] = append(d.pieces[last], x)
	d.put(d.n, x)
	d.n++
}

// put makes x the i-th member.
func (d *deadlines[T]) put(i int, x due[T]) {
	*d.at(i) = x
	*x.v.place() = int32(i) //nolint:gosec // memory for so many is not there
}

func (d *deadlines[T]) remove(i int) {
	*d.at(i).v.place() = -1
	d.n--
	last, piece := *d.at(d.n), d.n>>pieceBits
	*d.at(d.n) = due[T]{}
	d.pieces[piece] = d.pieces[piece][:d.n&pieceMask]
	if piece+1 < len(d.pieces) { // one piece more than is needed is kept
		d.pieces = d.pieces[:piece+1]
	}
	if i < d.n {
		d.put(i, last)
		d.up(i)
		d.down(int(*last.v.place()))
	}
}

func (d *deadlines[T]) up(i int) {
	x := *d.at(i)
	for i > 0 {
		parent := (i - 1) / 2
		p := *d.at(parent)
		if p.at <= x.at {
			break
		}
		d.put(i, p)
		i = parent
	}
	d.put(i, x)
}

func (d *deadlines[T]) down(i int) {
	x := *d.at(i)
	for {
		child := 2*i + 1
		if child >= d.n {
			break
		}
		c := *d.at(child)
		if child+1 < d.n {
			if other := *d.at(child + 1); other.at < c.at {
				child, c = child+1, other
			}
		}
		if x.at <= c.at {
			break
		}
		d.put(i, c)
		i = child
	}
	d.put(i, x)
}
