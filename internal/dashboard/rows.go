package dashboard

import (
	"context"
	"encoding/base64"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redoubt-go/redoubt"
	lockwire "github.com/redoubt-go/redoubt/internal/wire/lock"
	queuewire "github.com/redoubt-go/redoubt/internal/wire/queue"
	ratelimitwire "github.com/redoubt-go/redoubt/internal/wire/ratelimit"
	stockwire "github.com/redoubt-go/redoubt/internal/wire/stock"
)

const (
	// pageRows is how many rows a page has at most.
	pageRows = 50
	// pageRounds is how many times a page asks for the states of pageRows names. Names without a state,
	// like free locks, have no row.
	pageRounds = 4
)

// A view is what a person looks at.
type view string

const (
	viewOverview view = "overview"
	viewLocks    view = "locks"
	viewLimits   view = "limits"
	viewQueues   view = "queues"
	viewStock    view = "stock"
	viewCaches   view = "caches"
	viewBloom    view = "bloom"
	viewPools    view = "pools"
	viewEngine   view = "engine"
)

// A viewOf says what a view has. Either it lists names of kinds, page by page, or one reads its rows.
type viewOf struct {
	kinds []kind
	one   func(l *reading) (rows []any, err error)
}

var views = map[view]viewOf{
	viewOverview: {one: func(*reading) ([]any, error) { return nil, nil }},
	viewLocks:    {kinds: []kind{kindLock, kindSemaphore, kindLatch}},
	viewLimits:   {kinds: []kind{kindLimit, kindThrottle}},
	viewQueues:   {kinds: []kind{kindQueue}},
	viewStock:    {kinds: []kind{kindStock}},
	viewCaches:   {kinds: []kind{kindCache}},
	viewBloom:    {kinds: []kind{kindBloom, kindChain}},
	viewPools:    {one: (*reading).poolRows},
	viewEngine:   {one: (*reading).engineRows},
}

// viewNames lists the views that are wanted, for errors.
func viewNames(wanted func(v viewOf) bool) string {
	var names []string
	for name, v := range views {
		if wanted(v) {
			names = append(names, string(name))
		}
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// A pageOfView says what a snapshot shows of a view.
type pageOfView struct {
	view view
	q    string // the names that contain it, in lower case
	page string // as cursor reads it
	name string // only the things with this name; empty: all
}

// A reading reads a page of rows once.
type reading struct {
	pageOfView

	ctx  context.Context //nolint:containedctx // of the one snapshot that this is for
	s    *source
	user User
	info info

	limits func() LimitCounts // nil or once, as below
	takers func() map[string]int
}

// read begins a reading.
func (req *request) read(ctx context.Context, page pageOfView, i info) *reading {
	l := &reading{pageOfView: page, ctx: ctx, s: req.source, user: req.user, info: i}
	if f := l.s.Limits; f != nil {
		l.limits = sync.OnceValue(f)
	}
	if f := l.s.Takers; f != nil {
		l.takers = sync.OnceValue(f)
	}
	return l
}

// A reader reads the state of the names of one kind.
type reader struct {
	// right is the command that a user must be allowed to run on a name, with what follows the name.
	right []string
	// cmds read the state of a name.
	cmds func(c *redoubt.Client, name string) ([]redoubt.Cmd, error)
	// row makes the row of a name from the replies. nil: the name has no state any more.
	row func(l *reading, name string, r []redoubt.Reply) (map[string]any, error)
}

var readers = [kinds]reader{
	kindLock:      {[]string{"LOCK.INFO"}, lockCmds, lockRow},
	kindSemaphore: {[]string{"SEM.INFO"}, semaphoreCmds, semaphoreRow},
	kindLatch:     {[]string{"LOCK.INFO"}, latchCmds, latchRow},
	kindLimit:     {[]string{"LIMIT.PEEK", "1", "1000", "1"}, limitCmds, limitRow},
	kindQueue:     {[]string{"QUEUE.STATS"}, queueCmds, queueRow},
	kindStock:     {[]string{"STOCK.INFO"}, stockCmds, stockRow},
	kindCache:     {[]string{"GET"}, nil, cacheRow},
	kindBloom:     {[]string{"BF.INFO"}, nil, bloomRow},
	kindThrottle:  {[]string{"PTTL"}, throttleCmds, throttleRow},
	kindChain:     {[]string{"BF.INFO"}, chainCmds, chainRow},
}

// may reports whether the user may see a name.
func (l *reading) may(k kind, name string) bool {
	right := readers[k].right
	return l.user.May(append([]string{right[0], name}, right[1:]...)...)
}

// rows reads a page of rows, one kind after the other, in one pipeline for each pageRows names.
func (l *reading) rows() (rows []any, next string, err error) {
	v := views[l.view]
	if v.one != nil {
		rows, err = v.one(l)
		return rows, "", err
	}
	if l.s.names == nil {
		return nil, "", errNoCommands
	}
	at, last, err := cursor(l.view, l.page)
	if err != nil {
		return nil, "", err
	}
	rows = []any{}
	for rounds := 0; at < len(v.kinds) && rounds < pageRounds && len(rows) < pageRows; rounds++ {
		names, more := l.after(v.kinds[at], last, pageRows-len(rows))
		if len(names) > 0 {
			last = names[len(names)-1]
			read, err := l.read(v.kinds[at], names)
			if err != nil {
				return nil, "", err
			}
			rows = append(rows, read...)
		}
		if !more {
			at, last = at+1, ""
			rounds-- // an empty kind costs nothing
		}
	}
	if at < len(v.kinds) {
		next = ref(string(rune('0'+at)) + last)
	}
	return rows, next, nil
}

// after returns at most most names of a kind that are to be shown and follow one. more: there may be others
// after them.
func (l *reading) after(k kind, last string, most int) (names []string, more bool) {
	switch {
	case l.name != "":
		return []string{l.name}, false
	case k == kindThrottle && l.limits != nil:
		return pageOf(slices.Sorted(maps.Keys(l.limits().Keys)), last, l.q, most)
	case k == kindChain && l.s.Filters != nil:
		return pageOf(slices.Sorted(maps.Keys(l.s.Filters())), last, l.q, most)
	}
	return l.s.names.after(k, last, l.q, most)
}

// cursor reads the page of a request: the place of a kind of the view, and the last name before the page.
func cursor(v view, page string) (at int, last string, err error) {
	if page == "" {
		return 0, "", nil
	}
	kinds := views[v].kinds
	if kinds == nil {
		return 0, "", refuse(http.StatusBadRequest, "page is "+quoted(page)+", and the view "+string(v)+" has one page: leave page out")
	}
	b, err := base64.RawURLEncoding.DecodeString(page)
	if err != nil || len(b) == 0 || b[0] < '0' || int(b[0]-'0') >= len(kinds) {
		return 0, "", refuse(http.StatusBadRequest, "page is "+quoted(page)+"; want next of the page before, or nothing for the first page")
	}
	return int(b[0] - '0'), string(b[1:]), nil
}

// read reads the states of names in one pipeline and makes their rows. A name that another program uses is
// left out; a name whose state can't be read has a row with the error.
func (l *reading) read(k kind, names []string) (rows []any, err error) {
	if k == kindBloom {
		if err := l.countBlooms(names); err != nil {
			return nil, err
		}
	}
	r := &readers[k]
	var cmds []redoubt.Cmd
	var ends []int
	asked := names[:0:0]
	for _, name := range names {
		if !l.may(k, name) {
			continue
		}
		if r.cmds != nil {
			c, err := r.cmds(l.s.Client, name)
			if err != nil {
				continue // no name of ours
			}
			cmds = append(cmds, c...)
		}
		asked, ends = append(asked, name), append(ends, len(cmds))
	}
	var replies []redoubt.Reply
	if len(cmds) > 0 {
		replies = l.s.Client.Pipeline(l.ctx, cmds)
	}
	// With several servers, some may be down: the rows of the others stay.
	allDown := len(replies) > 0 && !slices.ContainsFunc(replies, func(r redoubt.Reply) bool { return !isDown(r.Err) })
	from := 0
	for i, name := range asked {
		row, err := r.row(l, name, replies[from:ends[i]])
		from = ends[i]
		switch {
		case errors.Is(err, redoubt.ErrWrongType):
			continue
		case err != nil && allDown:
			return nil, err
		case err != nil:
			row = map[string]any{"error": err.Error()}
		case row == nil:
			continue
		}
		row["name"], row["ref"] = printable(name), ref(name)
		rows = append(rows, row)
	}
	return rows, nil
}

func lockCmds(c *redoubt.Client, name string) ([]redoubt.Cmd, error) {
	keys, err := lockwire.RWKeys(c, name)
	return []redoubt.Cmd{lockwire.InfoCmd(keys)}, err
}

func lockRow(_ *reading, _ string, r []redoubt.Reply) (map[string]any, error) {
	i, err := lockwire.ReadInfo(r[0])
	if err != nil || i.Mode == 0 && i.Waiters == 0 {
		return nil, err
	}
	kind := "lock"
	if i.Mode == 2 {
		kind = "rwlock"
	}
	return map[string]any{"kind": kind, "shared": i.Mode == 2, "holders": holders(i.Holders), "count": i.Count, "waiting": i.Waiters, "limit": nil}, nil
}

func semaphoreCmds(c *redoubt.Client, name string) ([]redoubt.Cmd, error) {
	keys, err := lockwire.SemaphoreKeys(c, name)
	return []redoubt.Cmd{lockwire.SemaphoreInfoCmd(keys)}, err
}

func semaphoreRow(_ *reading, _ string, r []redoubt.Reply) (map[string]any, error) {
	i, err := lockwire.ReadSemaphoreInfo(r[0])
	if err != nil || i.Taken == 0 && i.Waiters == 0 {
		return nil, err
	}
	return map[string]any{"kind": "semaphore", "holders": holders(i.Holders), "count": i.Taken, "waiting": i.Waiters, "limit": nil}, nil
}

// holders describes holders. A token is text: it may be beyond what a number of JavaScript holds exactly.
func holders(list []lockwire.Holder) []any {
	out := []any{}
	for _, o := range list {
		out = append(out, map[string]any{
			"label": printableLabel(o.Label), "token": decimal(o.Token),
			"ageMs": max(0, time.Since(o.Since).Milliseconds()), "ttlMs": o.TTL.Milliseconds(),
		})
	}
	return out
}

func printableLabel(s string) string {
	if s == "" {
		return ""
	}
	return printable(s)
}

func latchCmds(c *redoubt.Client, name string) ([]redoubt.Cmd, error) {
	key, err := lockwire.LatchKey(c, name)
	return lockwire.LatchInfoCmds(key), err
}

func latchRow(_ *reading, _ string, r []redoubt.Reply) (map[string]any, error) {
	left, ttl, err := lockwire.ReadLatchInfo(r)
	if err != nil || left < 0 {
		return nil, err
	}
	return map[string]any{"kind": "latch", "holders": []any{}, "count": left, "waiting": nil, "limit": nil, "ttlMs": ttl.Milliseconds()}, nil
}

// limitKinds are the kinds of limits in a snapshot.
var limitKinds = map[kind]string{kindLimit: "limit", kindThrottle: "throttle"}

// limitCmds read a limit: what is stored under the name, and how long the tokens stay taken.
func limitCmds(c *redoubt.Client, name string) ([]redoubt.Cmd, error) {
	stored := ratelimitwire.NewStored(c, "")
	peek, err := stored.TakeCmd(name, 0)
	if err != nil {
		return nil, err
	}
	cmds := []redoubt.Cmd{peek}
	for _, part := range limitParts {
		key, err := c.Key(name, part)
		if err != nil {
			return nil, err
		}
		cmds = append(cmds, redoubt.Cmd{Name: "PTTL", Keys: []string{key}, Flags: redoubt.ReadOnly})
	}
	return cmds, nil
}

// limitParts are the keys of taken tokens, and limitPolicies the words for them. The keys live until all
// tokens are back.
var (
	limitParts    = []string{"gcra", "window", "quota", "calls"}
	limitPolicies = []string{"rate", "window", "quota", "concurrency"}
)

func limitRow(l *reading, name string, r []redoubt.Reply) (map[string]any, error) {
	row := l.limitRowOf(kindLimit, name)
	var policies []string
	for i, ttl := range r[1:] {
		ms, err := ttl.Int()
		if err != nil {
			return nil, err
		}
		if ms > 0 {
			policies = append(policies, limitPolicies[i])
			row["fullInMs"] = max(row["fullInMs"].(int64), ms)
		}
	}
	stored := ratelimitwire.NewStored(l.s.Client, "")
	o, t, err := stored.Read(r[0])
	switch {
	case errors.Is(err, ratelimitwire.ErrNotConfigured): // the limit is in the program that asks
	case err != nil:
		return nil, err
	default:
		d := t.Decide(o, 0, 0)
		row["limit"], row["periodMs"], row["burst"] = d.Limit.Rate, d.Limit.Period.Milliseconds(), d.Limit.Burst
		row["remaining"], row["fullInMs"] = d.Remaining, d.ResetAfter.Milliseconds()
		policies = append(slices.DeleteFunc(policies, func(p string) bool { return p == "rate" }), "stored")
	}
	row["policy"] = strings.Join(policies, ", ")
	if len(policies) == 0 {
		return nil, nil //nolint:nilnil // its keys have just expired
	}
	return row, nil
}

// limitRowOf is the row of a limit about which only the counts of this process are known.
func (l *reading) limitRowOf(k kind, name string) map[string]any {
	row := map[string]any{
		"kind": limitKinds[k], "policy": "", "limit": nil, "periodMs": nil, "burst": nil, "remaining": nil, "fullInMs": int64(0),
		"allowed": nil, "denied": nil,
	}
	if l.limits != nil {
		counts := l.limits()
		if n, ok := counts.of(k, name); ok {
			row["allowed"], row["denied"] = n.Allowed, n.Denied
		}
	}
	return row
}

// throttleCmds read a key of CL.THROTTLE, which lives until all tokens are back. The limit is in the calls.
func throttleCmds(_ *redoubt.Client, key string) ([]redoubt.Cmd, error) {
	return []redoubt.Cmd{{Name: "PTTL", Keys: []string{key}, Flags: redoubt.ReadOnly}}, nil
}

func throttleRow(l *reading, key string, r []redoubt.Reply) (map[string]any, error) {
	ms, err := r[0].Int()
	if err != nil {
		return nil, err
	}
	row := l.limitRowOf(kindThrottle, key)
	if row["allowed"] == nil {
		return nil, nil //nolint:nilnil // no client has used it in CL.THROTTLE
	}
	row["policy"], row["fullInMs"] = "throttle", max(0, ms)
	return row, nil
}

func queueCmds(c *redoubt.Client, name string) ([]redoubt.Cmd, error) {
	keys, err := queuewire.KeysOf(c, name)
	return []redoubt.Cmd{queuewire.StatsCmd(keys)}, err
}

func queueRow(l *reading, name string, r []redoubt.Reply) (map[string]any, error) {
	s, err := queuewire.ReadStats(r[0])
	if err != nil {
		return nil, err
	}
	var takers any // that wait in this process
	if l.takers != nil {
		keys, err := queuewire.KeysOf(l.s.Client, name)
		if err != nil {
			return nil, err
		}
		takers = l.takers()[keys.Wake()]
	}
	return map[string]any{
		"takers": takers, "ready": s.Ready, "due": s.Due, "active": s.Running, "waiting": s.Waiting + s.Blocked, "dead": s.Dead,
		"oldestMs": s.Oldest.Milliseconds(), "nextMs": s.Next.Milliseconds(), "paused": s.Paused, "concurrency": s.Limits.Concurrency,
	}, nil
}

func stockCmds(c *redoubt.Client, name string) ([]redoubt.Cmd, error) {
	keys, err := stockwire.KeysOf(c, name)
	return []redoubt.Cmd{stockwire.InfoCmd(keys)}, err
}

func stockRow(_ *reading, _ string, r []redoubt.Reply) (map[string]any, error) {
	c, err := stockwire.ReadCount(r[0])
	if err != nil {
		return nil, err
	}
	return map[string]any{
		"available": c.Available, "reserved": c.Reserved, "sold": c.Sold, "total": c.Total, "reservations": c.Reservations,
		"nextMs": c.Next.Milliseconds(),
	}, nil
}

// cacheRow counts the entries that the scan has found. The other counts are of this process.
func cacheRow(l *reading, name string, _ []redoubt.Reply) (map[string]any, error) {
	row := map[string]any{"entries": l.s.names.entries(kindCache, name), "hits": nil, "stale": nil, "loads": nil, "errors": nil}
	if l.s.Caches != nil {
		if c, ok := l.s.Caches()[name]; ok {
			row["hits"], row["stale"], row["loads"], row["errors"] = c.Hits, c.Stale, c.Loads, c.Errors
		}
	}
	return row, nil
}
