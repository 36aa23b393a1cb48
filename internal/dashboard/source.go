package dashboard

import (
	"time"

	"github.com/redoubt-go/redoubt"
)

// The kinds of a [Source].
const (
	KindEngine    = "engine"
	KindRedis     = "redis"
	KindPool      = "pool"
	KindMemcached = "memcached"
)

// A Source is what a person chooses to look at: a back end, or a pool.
type Source struct {
	Name string
	Kind string
	// URL is where clients reach the commands of Redoubt, like redis://127.0.0.1:6380. Empty: nobody knows.
	URL string
	// Of is the server or pool that this is a source of. The handler keeps the charts of a source while its
	// Name, Kind, Of and Client stay the same.
	Of any
	// Client reads the state of names. nil: this source has no commands of Redoubt.
	Client *redoubt.Client
	// Users are the users that may look.
	Users Users
	// Counts returns what this process has counted. nil: only the back end counts.
	Counts func() Counts
	// Pool returns the state of a pool. nil: the source is none.
	Pool func() Pool
	// Caches are the counts of caches of this process, by name. nil: there are none.
	Caches func() map[string]CacheCounts
	// Limits are the decisions of this process, by name. nil: there are none.
	Limits func() LimitCounts
	// Filters are the keys that BF commands have used in this process. nil: there are none.
	Filters func() map[string]FilterCounts
	// Takers counts the clients that wait for messages in this process, by the key of the queue's wake-up
	// marker. nil: unknown.
	Takers func() map[string]int
	// SaveErr returns why an engine can't save. nil: it is none.
	SaveErr func() error
}

// Users are the users of one source.
type Users interface {
	// Login returns the user with a name and a password, or nil. guarded: the user needs a password.
	Login(name, password string) (u User, guarded bool)
	// Open returns the user that needs neither, or nil.
	Open() User
}

// A User may do some things.
type User interface {
	Name() string
	// May reports whether the user may run a command, whose name is first.
	May(args ...string) bool
	// Writes reports whether this handler lets the user change anything.
	Writes() bool
}

// Counts are counters of this process, and its state.
type Counts struct {
	Clients  int
	Commands uint64
	Errors   uint64 // commands that the back end did not answer
	BytesIn  uint64
	BytesOut uint64
	Started  time.Time // zero: unknown
}

// CacheCounts are counts of one cache in this process.
type CacheCounts struct {
	Hits, Stale, Loads, Errors int64
}

// LimitCounts are the decisions of rate limits in this process.
type LimitCounts struct {
	Allowed, Denied uint64
	// Names has the limits with the most decisions, Keys the keys of CL.THROTTLE: at most some thousand each.
	Names, Keys map[string]LimitCount
}

// of returns the counts of one limit, or of one key of CL.THROTTLE.
func (c *LimitCounts) of(k kind, name string) (n LimitCount, ok bool) {
	if k == kindThrottle {
		n, ok = c.Keys[name]
	} else {
		n, ok = c.Names[name]
	}
	return n, ok
}

// A LimitCount counts the decisions of one name.
type LimitCount struct{ Allowed, Denied uint64 }

// FilterCounts count the calls of BF commands for one key: calls that make the filter or add items, and
// calls that look items up.
type FilterCounts struct{ Adds, Looks uint64 }

// A Pool is the state of a pool of servers.
type Pool struct {
	Servers []PoolServer
	HotKeys []HotKey
	SlowLog []SlowCommand // the latest first
	Latency Histogram     // of all commands
}

// A PoolServer is the state of a server of a pool, or of a replica.
type PoolServer struct {
	Name        string    `json:"name"`
	Addr        string    `json:"addr"`
	Replica     bool      `json:"replica"`
	State       string    `json:"state"` // up, down or ejected
	Share       float64   `json:"share"` // of the keys, 0 to 1
	Connections int       `json:"connections"`
	Requests    uint64    `json:"requests"`
	Errors      uint64    `json:"errors"`
	InFlight    int       `json:"inFlight"`
	Ejections   uint64    `json:"ejections"`
	P50         float64   `json:"p50"` // ms
	P99         float64   `json:"p99"` // ms
	Histogram   Histogram `json:"histogram"`
}

// A HotKey is a key that clients ask for often.
type HotKey struct {
	Key       string  `json:"key"`
	PerSecond float64 `json:"perSecond"`
	Error     float64 `json:"error"` // how much more it may be
}

// A SlowCommand took long.
type SlowCommand struct {
	ID     uint64   `json:"id"`
	Time   int64    `json:"time"`   // ms since 1970
	TookMs float64  `json:"tookMs"` // ms
	Server string   `json:"server"`
	Client string   `json:"client"`
	Args   []string `json:"args"` // with the name of the command first; it alone for users who may not SLOWLOG GET
}

// A Histogram counts durations: for each bound the durations up to it and above the bound before, and at
// last the durations above all bounds.
type Histogram struct {
	BoundsMs []float64 `json:"boundsMs"`
	Counts   []uint64  `json:"counts"`
}

// Quantile returns the bound in ms that a part q of the durations does not exceed, or 0 without any.
func (h Histogram) Quantile(q float64) float64 {
	all := uint64(0)
	for _, n := range h.Counts {
		all += n
	}
	sum := uint64(0)
	for i, n := range h.Counts {
		if sum += n; all > 0 && float64(sum) >= q*float64(all) {
			return h.BoundsMs[min(i, len(h.BoundsMs)-1)]
		}
	}
	return 0
}
