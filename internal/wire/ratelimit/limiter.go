package ratelimit

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/randid"
)

// A Limiter makes the commands of one or several limits, and reads their replies.
type Limiter struct {
	keyspace
	bare   bool
	terms  Terms
	one    []string      // arguments for one token
	stored *storedLimits // nil when the limits are terms
}

// A keyspace makes the keys of taken tokens.
type keyspace struct {
	client *redoubt.Client
	suffix string // of each part that has taken tokens
}

// taken returns a key of the tokens taken under name.
func (k keyspace) taken(name, part string) (string, error) {
	return k.client.Key(name, part+k.suffix)
}

// NewLimiter returns the Limiter of limits. The suffix separates callers that share no tokens; with
// bare a name is used as key unchanged.
func NewLimiter(client *redoubt.Client, suffix string, bare bool, limits []Limit) (*Limiter, error) {
	t, err := NewTerms(limits)
	if err != nil {
		return nil, err
	}
	return &Limiter{keyspace: keyspace{client, suffix}, bare: bare, terms: t, one: t.Args(now, 1)}, nil
}

// NewStored returns the Limiter of limits that are stored on the server under each name.
func NewStored(client *redoubt.Client, suffix string) *Limiter {
	return &Limiter{keyspace: keyspace{client, suffix}, stored: &storedLimits{}}
}

// Stored reports whether the limits are on the server.
func (l *Limiter) Stored() bool { return l.stored != nil }

// Terms are the limits; none when they are stored.
func (l *Limiter) Terms() *Terms { return &l.terms }

// Key returns the key of the tokens taken under name. The error matches
// redoubt.ErrInvalidName.
func (l *Limiter) Key(name string) (string, error) {
	if !l.bare {
		return l.taken(name, "gcra")
	}
	if name == "" {
		return "", fmt.Errorf("%w: it is empty", redoubt.ErrInvalidName)
	}
	return name, nil
}

// refundsKey returns the key of the ids of refunds.
func (l *Limiter) refundsKey(name string) (string, error) {
	if !l.bare {
		return l.taken(name, "refunds")
	}
	// It must share the slot of the bare key, whose hash tag is the text in the first
	// braces, or all of the key.
	if _, tag, ok := strings.Cut(name, "{"); ok {
		if end := strings.IndexByte(tag, '}'); end > 0 {
			return name + ":refunds", nil
		}
	}
	if strings.Contains(name, "}") {
		return "", fmt.Errorf("%w: %q has a brace and no hash tag, so nothing can be given back on it", redoubt.ErrInvalidName, name)
	}
	return "{" + name + "}:refunds", nil
}

// LimitKey returns the key of the limits that are stored under name. All scopes share them.
func (l *Limiter) LimitKey(name string) (string, error) {
	if l.stored == nil {
		return "", errNotStored
	}
	return l.client.Key(name, "limit")
}

// errNotStored is the error of a Limiter with limits of its own.
var errNotStored = errors.New("ratelimit: the limits of this Limiter are its own, not stored: see Options.Stored")

// An operation is a script that works on a list of limits, without and with the
// limits kept on the server.
type operation struct {
	script, stored *redoubt.Script
	refunds        bool // the ids of refunds are its second key
}

var (
	take   = operation{script: gcraScript, stored: storedGCRAScript}
	upTo   = operation{script: uptoScript, stored: storedUpToScript}
	refund = operation{script: refundScript, stored: storedRefundScript, refunds: true}
	batch  = operation{script: batchScript, stored: storedBatchScript}
)

// cmd is the command that does op with n tokens of the limit called name. The lead is the arguments
// before the limits.
func (l *Limiter) cmd(op operation, name string, n int, lead ...string) (redoubt.Cmd, error) {
	if l.stored != nil {
		return l.storedCmd(op, name, n, lead)
	}
	keys, err := l.keys(op, nil, name)
	args := l.one
	if op != take || n != 1 || !slices.Equal(lead, now) {
		args = l.terms.Args(lead, int64(n))
	}
	return redoubt.Cmd{Script: op.script, Keys: keys, Args: args}, err
}

// keys appends the keys of op.
func (l *Limiter) keys(op operation, keys []string, name string) ([]string, error) {
	key, err := l.Key(name)
	if err != nil || !op.refunds {
		return append(keys, key), err
	}
	refunds, err := l.refundsKey(name)
	return append(keys, key, refunds), err
}

// storedCmd is cmd with the limits that are stored under name.
func (l *Limiter) storedCmd(op operation, name string, n int, lead []string) (redoubt.Cmd, error) {
	if int64(n) > MaxUpTo {
		return redoubt.Cmd{}, fmt.Errorf("ratelimit: n is %d; want at most %d", n, int64(MaxUpTo))
	}
	limit, err := l.LimitKey(name)
	if err != nil {
		return redoubt.Cmd{}, err
	}
	keys, err := l.keys(op, []string{limit}, name)
	args := append([]string{strconv.Itoa(n)}, lead...)
	return redoubt.Cmd{Script: op.stored, Keys: keys, Args: args}, err
}

// MaxUpTo is the largest factor in a script, so that Lua's numbers stay exact.
const MaxUpTo = 1 << 52

// Read reads the reply to a command of one call: the outcome, and the limits that decided it.
func (l *Limiter) Read(r redoubt.Reply) (Outcome, *Terms, error) {
	r, t := l.reply(r)
	if r.Err != nil {
		return Outcome{}, nil, r.Err
	}
	o, err := readOutcome(r, len(t.Rates))
	return o, t, err
}

// reply returns the reply of the script itself, or an error, and the limits that decided the call.
func (l *Limiter) reply(r redoubt.Reply) (redoubt.Reply, *Terms) {
	if l.stored != nil {
		return l.stored.reply(r)
	}
	return r, &l.terms
}

// TakeCmd is the command that takes n tokens of the limit called name, all or
// none.
func (l *Limiter) TakeCmd(name string, n int) (redoubt.Cmd, error) {
	if n < 0 {
		return redoubt.Cmd{}, fmt.Errorf("ratelimit: n is %d; want at least 0", n)
	}
	cmd, err := l.cmd(take, name, n, now...)
	if n == 0 {
		cmd.Flags = redoubt.ReadOnly
	}
	return cmd, err
}

// ReadTake reads the reply to [Limiter.TakeCmd].
func (l *Limiter) ReadTake(r redoubt.Reply, n int) (Decision, error) {
	o, t, err := l.Read(r)
	if err != nil {
		return Decision{}, err
	}
	return t.Decide(o, o.First*int64(n), int64(n)), nil
}

// UpToCmd takes up to n tokens, as many as are left.
func (l *Limiter) UpToCmd(name string, n int64) (redoubt.Cmd, error) {
	return l.cmd(upTo, name, 1, strconv.FormatInt(n, 10))
}

// BatchCmd makes several calls for a name in turn, each for n[i] tokens.
func (l *Limiter) BatchCmd(name string, n []int) (redoubt.Cmd, error) {
	lead := make([]string, 1, 1+len(n)+4*MaxLimits)
	lead[0] = strconv.Itoa(len(n))
	for _, n := range n {
		lead = append(lead, strconv.Itoa(n))
	}
	return l.cmd(batch, name, 1, lead...)
}

// ReadBatch reads the reply to [Limiter.BatchCmd] for n calls.
func (l *Limiter) ReadBatch(r redoubt.Reply, n int) ([]Outcome, *Terms, error) {
	r, t := l.reply(r)
	if r.Err != nil {
		return nil, nil, r.Err
	}
	each := 1 + 2*len(t.Rates)
	v := make([]int64, 1+each*n)
	if err := r.Ints(v); err != nil {
		return nil, nil, err
	}
	all := make([]Outcome, n)
	for i := range all {
		all[i] = readAhead(v[0], v[1+i*each:1+(i+1)*each])
	}
	return all, t, nil
}

// readAhead reads allowed, then ahead_s and ahead_ns of each limit.
func readAhead(now int64, v []int64) Outcome {
	o := Outcome{First: v[0], Now: now}
	for i := range len(v) / 2 {
		o.Ahead[i] = Add(Mul(v[1+2*i], second), v[2+2*i])
	}
	return o
}

// forEver is longer than any wait for a limit.
const forEver = math.MaxInt64

// ReserveCmd takes n tokens that may come later, within a time; 0 is no bound. [Limiter.Read] reads
// the reply.
func (l *Limiter) ReserveCmd(name string, n int, within time.Duration) (redoubt.Cmd, error) {
	if n < 1 {
		return redoubt.Cmd{}, fmt.Errorf("ratelimit: n is %d; want at least 1", n)
	}
	if within == 0 {
		within = forEver
	}
	s, ns := split(int64(within))
	return l.cmd(take, name, n, s, ns)
}

// Receipt is the text, without blanks, by which [Limiter.CancelReceiptCmd] takes back n tokens. The id
// names the cancellation, and o is the outcome of the reservation.
func (t *Terms) Receipt(o Outcome, id string, n int) string {
	words := append([]string{id}, t.Args(nil, int64(n))...)
	return strings.Join(append(words, strings.Fields(t.TATs(o))...), ":")
}

// CancelReceiptCmd gives a reservation back by its receipt. [ReadCancel] reads its reply.
func (l *Limiter) CancelReceiptCmd(name, receipt string) (redoubt.Cmd, error) {
	words := strings.Split(receipt, ":")
	limits := len(words) / 5
	ok := len(words) == 1+5*limits && limits >= 1 && limits <= MaxLimits && words[0] != "" && len(words[0]) <= MaxID
	for i, w := range words[1:] {
		least, most := 1, 9+(i+1)%2*2 // ns, or seconds
		if i >= 4*limits {
			least, most = 10, 20
		}
		ok = ok && len(w) >= least && len(w) <= most && strings.Trim(w, "0123456789") == ""
	}
	if !ok {
		return redoubt.Cmd{}, ErrInvalidReceipt
	}
	return l.CancelCmd(name, words[0], strings.Join(words[1+4*limits:], " "), words[1:1+4*limits])
}

// ErrInvalidReceipt is returned by [Limiter.CancelReceiptCmd] for a text that is no receipt.
var ErrInvalidReceipt = errors.New("ratelimit: this is no receipt of a reservation")

// ReadCancel reads the reply to [Limiter.CancelCmd] and [Limiter.CancelReceiptCmd]: whether the reservation's
// time had not come, so that its tokens were given back.
func ReadCancel(r redoubt.Reply) (bool, error) {
	a, err := r.Array()
	if err != nil {
		return false, err
	}
	n, err := redoubt.Reply{Val: append(a, nil)[0]}.Int()
	return n == 1, err
}

// CancelCmd gives a reservation back by the limits under which it was made, also when others are
// stored now.
func (l *Limiter) CancelCmd(name, id, tats string, limits []string) (redoubt.Cmd, error) {
	keys, err := l.keys(refund, nil, name)
	return redoubt.Cmd{
		Script: refundScript,
		Keys:   keys,
		Args:   slices.Concat([]string{id, tats, "0"}, limits),
		Flags:  redoubt.Idempotent,
	}, err
}

// MaxID is the longest id of a refund, in bytes.
const MaxID = 512

// RefundCmd gives n tokens back, once for an id that is not empty. [Limiter.ReadRefund] reads its
// reply.
func (l *Limiter) RefundCmd(name string, n int, id string) (redoubt.Cmd, error) {
	if n < 1 {
		return redoubt.Cmd{}, fmt.Errorf("ratelimit: n is %d; want at least 1", n)
	}
	if len(id) > MaxID {
		return redoubt.Cmd{}, fmt.Errorf("ratelimit: id has %d bytes; want at most %d", len(id), MaxID)
	}
	once := "0"
	if id == "" {
		id, once = NewID(), "1"
	}
	cmd, err := l.cmd(refund, name, n, id, "", once)
	cmd.Flags = redoubt.Idempotent
	return cmd, err
}

// ReadRefund reads the reply to [Limiter.RefundCmd].
func (l *Limiter) ReadRefund(r redoubt.Reply) (Decision, error) {
	o, t, err := l.Read(r)
	if err != nil {
		return Decision{}, err
	}
	return t.Decide(o, 0, 0), nil
}

// NewID returns 128 random bits in hexadecimal digits.
func NewID() string { return randid.Hex(16) }

// SetCmd stores limits under name. [ReadLimits] reads its reply.
func (l *Limiter) SetCmd(name string, limits []Limit) (redoubt.Cmd, error) {
	cmd, err := l.defineCmd(name, "0", limits)
	cmd.Flags = redoubt.Idempotent
	return cmd, err
}

// TrySetCmd stores limits under name unless there are some. [ReadLimits] reads its reply.
func (l *Limiter) TrySetCmd(name string, limits []Limit) (redoubt.Cmd, error) {
	return l.defineCmd(name, "1", limits)
}

func (l *Limiter) defineCmd(name, first string, limits []Limit) (redoubt.Cmd, error) {
	key, err := l.LimitKey(name)
	if err != nil {
		return redoubt.Cmd{}, err
	}
	t, err := NewTerms(limits)
	if err != nil {
		return redoubt.Cmd{}, err
	}
	return redoubt.Cmd{Script: defineScript, Keys: []string{key}, Args: []string{t.String(), first}}, nil
}

// GetCmd asks for the limits that are stored under name. [ReadLimits] reads its reply.
func (l *Limiter) GetCmd(name string) (redoubt.Cmd, error) {
	key, err := l.LimitKey(name)
	return redoubt.Cmd{Script: defineScript, Keys: []string{key}, Args: []string{"", "0"}, Flags: redoubt.ReadOnly}, err
}

// DeleteCmd removes all keys of name: the stored limits, what was taken, and the ids of refunds. The
// reply is how many there were.
func (l *Limiter) DeleteCmd(name string) (redoubt.Cmd, error) {
	key, err := l.Key(name)
	if err != nil {
		return redoubt.Cmd{}, err
	}
	keys := []string{key}
	if refunds, err := l.refundsKey(name); err == nil { // else nothing can have been given back
		keys = append(keys, refunds)
	}
	if l.stored != nil {
		limit, err := l.LimitKey(name)
		if err != nil {
			return redoubt.Cmd{}, err
		}
		keys = append(keys, limit)
	}
	return redoubt.Cmd{Name: "DEL", Keys: keys, Flags: redoubt.Idempotent}, nil
}

// ReadLimits reads the reply to [Limiter.SetCmd], TrySetCmd and GetCmd: whether
// the command stored its limits, and which are stored now, if any are.
func ReadLimits(r redoubt.Reply) (stored bool, limits []Limit, err error) {
	two, err := r.Array()
	if err != nil {
		return false, nil, err
	}
	if len(two) != 2 {
		return false, nil, fmt.Errorf("ratelimit: reply has %d elements, want 2", len(two))
	}
	n, err := redoubt.Reply{Val: two[0]}.Int()
	if err != nil {
		return false, nil, err
	}
	text, err := redoubt.Reply{Val: two[1]}.Text()
	if err != nil || text == "" {
		return n == 1, nil, err
	}
	t, err := ParseTerms(text)
	return n == 1, t.Limits, err
}

// ResetCmd gives back all that limiters, windows and quotas with an overall scope have taken under
// name. The reply is an array with the number of keys.
func ResetCmd(client *redoubt.Client, name string) (redoubt.Cmd, error) {
	cmd := redoubt.Cmd{Script: resetScript, Flags: redoubt.Idempotent}
	for _, part := range []string{"gcra", "window", "quota"} {
		key, err := client.Key(name, part)
		if err != nil {
			return cmd, err
		}
		cmd.Keys = append(cmd.Keys, key)
	}
	return cmd, nil
}

// storedLimits reads replies that come with the limits that decided them. It remembers the last
// limits, because most replies have the same.
type storedLimits struct{ last atomic.Pointer[storedTerms] }

type storedTerms struct {
	text string
	Terms
}

func (s *storedLimits) reply(r redoubt.Reply) (redoubt.Reply, *Terms) {
	fail := func(err error) (redoubt.Reply, *Terms) { return redoubt.Reply{Err: err}, nil }
	if redoubt.IsCode(r.Err, "NOTCONFIGURED") {
		return fail(ErrNotConfigured)
	}
	two, err := r.Array()
	if err != nil {
		return fail(err)
	}
	if len(two) != 2 {
		return fail(fmt.Errorf("ratelimit: reply has %d elements, want 2", len(two)))
	}
	text, err := redoubt.Reply{Val: two[1]}.Text()
	if err != nil {
		return fail(err)
	}
	t := s.last.Load()
	if t == nil || t.text != text {
		parsed, err := ParseTerms(text)
		if err != nil {
			return fail(err)
		}
		t = &storedTerms{text, parsed}
		s.last.Store(t)
	}
	return redoubt.Reply{Val: two[0]}, &t.Terms
}

// ErrNotConfigured is matched when no limits are stored under the name.
var ErrNotConfigured = errors.New("ratelimit: no limit is defined under this name")
