package geo

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/redoubt-go/redoubt"
	wire "github.com/redoubt-go/redoubt/internal/wire/geo"
)

var (
	// ErrInvalidPoint is matched by the error for a longitude or a latitude that is
	// out of range or not a number.
	ErrInvalidPoint = errors.New("geo: invalid point")

	// ErrInvalidMember is matched by the error for a member that is empty or too long.
	ErrInvalidMember = wire.ErrInvalidMember

	// ErrInvalidQuery is matched by the error for a [Query] without an area, with two areas, or with a
	// field that is out of range.
	ErrInvalidQuery = errors.New("geo: invalid query")

	// ErrNotFound is matched by the error for a query around a member that is not in the index.
	ErrNotFound = errors.New("geo: no such member")
)

const (
	// MaxName is the longest name of an index, in bytes. It is shorter than the names of other primitives,
	// because an index appends the names of cells to it.
	MaxName = redoubt.MaxName - 64
	// MaxMember is the longest name of a member: 512 bytes.
	MaxMember = wire.MaxMember
)

// Options configure [Indexes]. There are none yet.
type Options struct{}

// Indexes are all indexes of a Client, each with a name. Make one and use it for every index. It keeps no
// state and need not be closed. All methods may be called by many goroutines at once.
type Indexes struct {
	client *redoubt.Client
	sizes
}

// sizes are settings that tests change.
type sizes struct {
	most     int              // bytes, from which a cell is full
	splitFor time.Duration    // how long a split may take until another process takes it over
	now      func() time.Time // to find out what takes too long
}

// full is the size at which a cell is split: an estimate of its memory on the server, in bytes.
const full = 800_000

// New returns the Indexes of client. It sends nothing.
func New(client *redoubt.Client, _ Options) (*Indexes, error) {
	if client == nil {
		return nil, errors.New("geo: client is nil")
	}
	return &Indexes{client, sizes{full, splitTime, time.Now}}, nil
}

// Open returns the index called name. The first member that is added creates it on the server. Open
// sends nothing. A name has 1 to [MaxName] bytes and doesn't begin with '}'; the error for any other
// matches redoubt.ErrInvalidName.
func (xs *Indexes) Open(_ context.Context, name string) (*Index, error) {
	if len(name) > MaxName {
		return nil, fmt.Errorf("%w: it has %d bytes; want 1 to %d", redoubt.ErrInvalidName, len(name), MaxName)
	}
	if _, err := xs.client.Key(name, statePart); err != nil {
		return nil, err
	}
	return &Index{client: xs.client, name: name, sizes: xs.sizes, cells: newCells()}, nil
}

// An Index holds the positions of members on a server. Open it once and keep it: it learns which cells
// there are and asks only once. It stays valid when the index is deleted: see [Indexes.Delete]. All methods
// may be called by many goroutines at once. It need not be closed.
type Index struct {
	client *redoubt.Client
	name   string
	cells  *cells
	sizes
}

// The parts of a cell, and of the index of members: doc.go says what is in them.
const (
	statePart    = "state"
	pointsPart   = "points"
	arrivingPart = "arriving"
	leavingPart  = "leaving"
	leftPart     = "left"
	membersPart  = "members"
)

// shards is the number of keys of the index of members. With so many, no key grows past 1 MB with 100
// million members, and with a million members each key is small enough for the server's compact encoding.
const shards = 16384

// key returns a key of a cell or of a shard of the index of members. Each cell and each shard has a hash
// tag of its own, so they are in different slots.
func (x *Index) key(what, part string) string {
	key, err := x.client.Key(x.name+":"+what, part)
	if err != nil {
		panic("geo: " + err.Error()) // Open has checked the name
	}
	return key
}

// keys returns the keys of one cell.
func (x *Index) keys(c cell, parts ...string) []string {
	all, name := make([]string, len(parts)), c.String()
	for i, part := range parts {
		all[i] = x.key(name, part)
	}
	return all
}

// shard returns the key that has the home of a member.
func (x *Index) shard(member string) string {
	return x.key(strconv.FormatUint(hashOf(member)>>hashBits%shards, 10), membersPart)
}

func decimal[N int | int64 | uint64](n N) string {
	if n < 0 {
		return strconv.FormatInt(int64(n), 10)
	}
	return strconv.FormatUint(uint64(n), 10)
}

// atOnce bounds how many members are dealt with in one pipeline, so that replies
// don't pile up, and perScript how many by one script.
const (
	atOnce    = 4096
	perScript = 128
)

// send runs one command alone, so that the client merges it with the calls of other goroutines, and
// several commands as a pipeline.
func (x *Index) send(ctx context.Context, cmds []redoubt.Cmd) []redoubt.Reply {
	switch len(cmds) {
	case 0:
		return nil
	case 1:
		return []redoubt.Reply{x.client.Do(ctx, cmds[0])}
	}
	return x.client.Pipeline(ctx, cmds)
}

// pause waits some milliseconds for another process.
func pause(ctx context.Context) error {
	t := time.NewTimer(time.Millisecond + rand.N(9*time.Millisecond))
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// A status is what a cell says to a script.
const (
	isDone      = 1
	isStateless = 3  // done, but the cell has no state: see status
	isFrozen    = 0  // it is being split
	isSplit     = -1 // it was, and its parts are to be asked
	isFull      = -2
	isMissing   = -3 // it is refused, because the cell is not there
	isForgotten = -4 // no script answers this: the index has other cells than this process knew
)

// A visit runs a script in the cells of some items. Items are known by number.
type visit struct {
	cmd   func(keys []string, args ...string) redoubt.Cmd
	parts []string              // the script's keys
	head  func(c cell) []string // its first arguments; may be nil
	where func(i int) address   // where an item belongs
	args  func(i int) []string  // what is said of an item
	done  func(i int, r any)    // what is answered of it; nil if nothing is
}

// visit runs a script in the cells of the items todo. It costs one round trip unless a cell is being
// split.
func (x *Index) visit(ctx context.Context, todo []int, v visit) error {
	for len(todo) > 0 {
		var cmds []redoubt.Cmd
		var to []cell
		var items [][]int
		open := make(map[cell]int) // the command that has room
		all := x.cells.now()
		for _, i := range todo {
			c := all[index(all, v.where(i))]
			n, ok := open[c]
			if !ok || len(items[n]) == perScript {
				n = len(cmds)
				open[c] = n
				var head []string
				if v.head != nil {
					head = v.head(c)
				}
				cmds = append(cmds, v.cmd(x.keys(c, v.parts...), head...))
				to, items = append(to, c), append(items, nil)
			}
			cmds[n].Args = append(cmds[n].Args, v.args(i)...)
			items[n] = append(items[n], i)
		}
		todo = nil
		busy := make(map[cell]bool)
		for n, r := range x.send(ctx, cmds) {
			status, rest, err := x.status(ctx, r, to[n])
			if err != nil {
				return err
			}
			if status != isDone {
				todo = append(todo, items[n]...)
				busy[to[n]] = status == isFrozen || status == isFull
				if status == isMissing { // lost by the server
					if err := x.ready(ctx, to[n], 0); err != nil {
						return err
					}
				}
				continue
			}
			if v.done != nil {
				if len(rest) != len(items[n]) {
					return fmt.Errorf("geo: %s answered about %d members, want %d", cmds[n].Script.Name(), len(rest), len(items[n]))
				}
				for j, i := range items[n] {
					v.done(i, rest[j])
				}
			}
		}
		if err := x.splitAll(ctx, busy); err != nil {
			return err
		}
	}
	return nil
}

// status reads a reply that begins with a status. After the status of a split cell the reply says where
// the cell was split.
//
// Only the first cell of a zone has members before it has a state: a part gets its state when it is
// filled, before its cell is split. So a part without a state is no cell of this index, unless the server
// has lost the state. Then the index was deleted since this process learned its cells. The process forgets
// them and asks again. Otherwise it would look for members where nobody else does.
func (x *Index) status(ctx context.Context, r redoubt.Reply, c cell) (status int64, rest []any, err error) {
	status, rest, err = x.readStatus(r, c)
	if err != nil || status != isStateless && status != isMissing {
		return status, rest, err
	}
	reached := x.cells.at(c.first) == c // otherwise the process has forgotten c since it asked
	if reached {
		if reached, err = x.reaches(ctx, c); err != nil {
			return 0, nil, err
		}
	}
	switch {
	case !reached:
		x.cells.forget()
		return isForgotten, nil, nil
	case status == isStateless:
		status = isDone
	}
	return status, rest, nil
}

// reaches reports whether the splits that the server knows lead to c. One round trip a split.
func (x *Index) reaches(ctx context.Context, c cell) (bool, error) {
	at := whole(c.zone())
	for at != c && at.first <= c.first && at.last >= c.last {
		a, err := x.client.Do(ctx, wire.WhereCmd(x.keys(at, statePart, pointsPart, arrivingPart, leavingPart, leftPart))).Array()
		if err != nil {
			return false, err
		}
		if len(a) != 2 || a[0] != int64(isSplit) {
			return false, nil
		}
		text, _ := a[1].(string)
		split, err := parseSplit(at, text)
		if err != nil {
			return false, err
		}
		left, right := at.parts(split)
		if at = left; c.first >= split {
			at = right
		}
	}
	return at == c, nil
}

// readStatus is status without the check of a cell that has no state.
func (x *Index) readStatus(r redoubt.Reply, c cell) (status int64, rest []any, err error) {
	a, err := r.Array()
	if err != nil {
		return 0, nil, err
	}
	if len(a) == 0 {
		return 0, nil, errors.New("geo: the reply of a cell is empty")
	}
	status, ok := a[0].(int64)
	if !ok {
		return 0, nil, fmt.Errorf("geo: the reply of a cell begins with %T, want an integer", a[0])
	}
	if status == isSplit {
		text, _ := a[len(a)-1].(string)
		return status, nil, x.learn(c, text)
	}
	return status, a[1:], nil
}

// learn notes that a cell was split.
func (x *Index) learn(c cell, text string) error {
	at, err := parseSplit(c, text)
	if err != nil {
		return err
	}
	x.cells.learn(c, at)
	return nil
}

func parseSplit(c cell, text string) (address, error) {
	at, err := strconv.ParseUint(text, 16, 64)
	if err != nil || address(at) <= c.first || address(at) > c.last {
		return 0, fmt.Errorf("geo: %q is no place to split the cell %v: something else has written it", text, c)
	}
	return address(at), nil
}

// all returns the numbers of n items.
func all(n int) []int {
	items := make([]int, n)
	for i := range items {
		items[i] = i
	}
	return items
}
