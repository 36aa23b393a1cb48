package queue

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redoubt-go/redoubt"
)

// Keys are the keys of one queue: those of parts. They share a hash tag.
type Keys [9]string

// queuePart ends the key that every queue has that has a message.
const queuePart = "queue"

var parts = [len(Keys{})]string{
	queuePart, "queue:ready", "queue:groups", "queue:due", "queue:dead", "queue:fails", "queue:wake", "queue:leases", "queue:config",
}

const (
	keyQueue = iota
	keyReady
	keyGroups
	keyDue
	keyDead
	keyFails
	keyWake
	keyLeases
	keyConfig
)

// hashed is the key of something that has a text of the caller's for a name.
func (k Keys) hashed(part, text string) string {
	return k[keyQueue] + ":" + part + ":" + shortHash(text)
}

// Wake is the key of the marker, which BZPOPMIN waits for: while it is there a [Pump]
// may find something.
func (k Keys) Wake() string { return k[keyWake] }

func (k Keys) result(id string) string { return k.hashed("result", id) }

var ids struct {
	base [7]byte
	n    atomic.Uint64
}

func init() {
	_, _ = rand.Read(ids.base[:]) // never fails: crypto/rand ends the process instead
}

// idText is base64 whose letters are in the order of their bytes, so that texts are in
// that of what they stand for.
var idText = base64.NewEncoding("-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz").WithPadding(base64.NoPadding)

// NewID returns the name of a new message: 16 letters, digits, - and _. Those of one
// process are in the order of their bytes.
func NewID() string {
	var b [15]byte
	copy(b[:], ids.base[:])
	binary.BigEndian.PutUint64(b[7:], ids.n.Add(1)<<24) // the last 40 bits
	return idText.EncodeToString(b[:12])
}

// takeLen is the length of what a receipt begins with: the name of a take.
const takeLen = 16

// NewTake returns a name for the take of a [Pump], which no other has.
func NewTake() string {
	var b [12]byte
	_, _ = rand.Read(b[:]) // never fails
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// ConsumerOf returns the name of a consumer for a [Pump] that [Pump.Repeats], for an
// id that a client chose.
func ConsumerOf(id string) string { return shortHash(id) }

func shortHash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return base64.RawURLEncoding.EncodeToString(sum[:12])
}

// IDOf is the message that a receipt is of. It is empty for what is no receipt.
func IDOf(receipt string) string {
	if len(receipt) <= takeLen {
		return ""
	}
	return receipt[takeLen:]
}

// The functions below are the operations on a queue as commands, and the readers
// of their replies. [Queue] and the QUEUE commands are built on them.

// PutCmd puts messages, whose IDs are set. Its error says what is wrong with them.
// Repeated it does nothing while the messages are in the queue and not dead.
func PutCmd(keys Keys, messages []Message) (redoubt.Cmd, error) {
	if len(messages) == 0 || len(messages) > MaxBatch {
		return redoubt.Cmd{}, fmt.Errorf("queue: %d messages; want 1 to %d", len(messages), MaxBatch)
	}
	var errs []error
	names := slices.Clone(keys[:keyLeases])
	args := make([]string, 0, 4*len(messages))
	bytes := 0
	for i := range messages {
		m := &messages[i]
		bytes += m.size()
		if err := m.check(); err != nil {
			if len(messages) > 1 {
				err = fmt.Errorf("message %d: %w", i, err)
			}
			if errs = append(errs, err); len(errs) == 10 {
				break
			}
			continue
		}
		unique := "0"
		if m.Unique != "" {
			names = append(names, keys.hashed("unique", m.Unique))
			unique = millis(m.UniqueFor)
		}
		args = append(args, m.ID, m.when(), unique, m.envelope())
	}
	if bytes > MaxBatchBytes && len(messages) > 1 {
		errs = append(errs, fmt.Errorf("%w: %d have %d bytes", ErrTooLarge, len(messages), bytes))
	}
	if err := errors.Join(errs...); err != nil {
		return redoubt.Cmd{}, err
	}
	return redoubt.Cmd{Script: putScript, Keys: names, Args: args, Flags: redoubt.Idempotent}, nil
}

func (m *Message) when() string {
	switch {
	case m.Delay > 0:
		return "-" + millis(m.Delay)
	case !m.At.IsZero():
		// Up: not before the time that was named.
		return decimal((m.At.UnixMicro() + 999) / 1000)
	}
	return "0"
}

// A Placed is what became of one message that was put.
type Placed struct {
	// ID is that of the message which is in the queue: the one that was put, or
	// the one that has its unique key.
	ID string
	// Status says whether it was put now.
	Status PutStatus
}

// PutStatus is what became of a message that was put.
type PutStatus int8

const (
	// Added: the message is in the queue from now on.
	Added PutStatus = 1
	// Exists: a message with its id is in the queue already, maybe the same; or was,
	// and still has its unique key.
	Exists PutStatus = 0
	// Duplicate: its unique key belongs to another, whose ID is given.
	Duplicate PutStatus = -1
)

// ReadPut reads the reply to [PutCmd] for the same messages.
func ReadPut(r redoubt.Reply, messages []Message) ([]Placed, error) {
	a, err := r.Array()
	if err != nil {
		return nil, err
	}
	if len(a) != len(messages)+1 {
		return nil, fmt.Errorf("queue: reply has %d elements, want %d", len(a), len(messages)+1)
	}
	placed := make([]Placed, len(messages))
	for i, v := range a[1:] {
		switch v := v.(type) {
		case int64:
			placed[i] = Placed{messages[i].ID, PutStatus(v)} //nolint:gosec // 0 or 1
		case string:
			placed[i] = Placed{v, Duplicate}
		}
	}
	return placed, nil
}

// ExtendCmd makes leases last at least lease from now, those of receipts that are
// held, at most [MaxSettle].
func ExtendCmd(keys Keys, lease time.Duration, receipts ...string) redoubt.Cmd {
	return redoubt.Cmd{
		Script: extendScript, Keys: keys[keyLeases : keyLeases+1],
		Args: append([]string{millis(lease)}, receipts...), Flags: redoubt.Idempotent,
	}
}

// ReadFlags reads the reply to [ExtendCmd] and [RequeueCmd]: which were held, or
// dead.
func ReadFlags(r redoubt.Reply) ([]bool, error) {
	a, err := r.Array()
	if err != nil {
		return nil, err
	}
	flags := make([]bool, len(a))
	for i, v := range a {
		flags[i] = v == int64(1)
	}
	return flags, nil
}

// CancelCmd removes messages that are pending or running, at most [MaxSettle], or none and gives
// an error when that would hold up the server. See [Cancel].
func CancelCmd(keys Keys, ids ...string) redoubt.Cmd {
	return cancelCmd(keys, "live", oneStep, ids, nil)
}

// DeleteCmd removes messages that are dead, at most [MaxSettle], or none and gives an error when
// that would hold up the server. See [Delete].
func DeleteCmd(keys Keys, ids ...string) redoubt.Cmd {
	return cancelCmd(keys, "dead", oneStep, ids, nil)
}

// What a script is to do with more than it can in a short time: an error, or a part of it.
const oneStep, manySteps = "1", "0"

func cancelCmd(keys Keys, which, steps string, ids []string, seen map[string]string) redoubt.Cmd {
	args := append(make([]string, 0, 2+2*len(ids)), which, steps)
	for _, id := range ids {
		args = append(args, id, seen[id])
	}
	return redoubt.Cmd{Script: cancelScript, Keys: keys[:keyConfig], Args: args}
}

// Was is what a message was when it was to be removed.
type Was int8

const (
	// WasAbsent: it is not in the queue. For [DeleteCmd]: it is not dead.
	WasAbsent Was = iota
	// WasPending: ready, not due yet, or waiting for the turn of its group.
	WasPending
	// WasRunning: a consumer has it.
	WasRunning
	// WasDead: it is dead. [CancelCmd] leaves it alone.
	WasDead

	// wasUnknown: it is to be looked for.
	wasUnknown Was = -1
)

// ReadCancel reads the reply to [CancelCmd] and [DeleteCmd].
func ReadCancel(r redoubt.Reply) ([]Was, error) {
	a, err := r.Array()
	if err != nil {
		return nil, err
	}
	was := make([]Was, len(a))
	for i, v := range a {
		n, _ := v.(int64)
		was[i] = Was(n) //nolint:gosec // -1 to 3
	}
	return was, nil
}

// RequeueCmd gives messages that are dead all their attempts again, at most [MaxSettle], or none
// and gives an error when that would hold up the server. See [Requeue]. [ReadFlags] reads the reply.
func RequeueCmd(keys Keys, ids ...string) redoubt.Cmd { return requeueCmd(keys, oneStep, ids) }

func requeueCmd(keys Keys, steps string, ids []string) redoubt.Cmd {
	return redoubt.Cmd{Script: requeueScript, Keys: keys[:keyLeases], Args: append([]string{steps}, ids...)}
}

// DrainCmd removes at most n messages that are pending, 1 to [MaxSettle]: it begins
// with skip 0 and goes on with what [ReadDrain] says.
func DrainCmd(keys Keys, n, skip int) redoubt.Cmd {
	return redoubt.Cmd{
		Script: drainScript,
		Keys:   append(keys[:keyDead:keyDead], keys[keyWake], keys[keyFails], keys[keyLeases]),
		Args:   []string{strconv.Itoa(n), strconv.Itoa(skip)},
	}
}

// ReadDrain reads the reply to [DrainCmd]: how many were removed, and whether there
// may be more.
func ReadDrain(r redoubt.Reply) (removed, skip int, more bool, err error) {
	var n [3]int64
	err = r.Ints(n[:])
	return int(n[0]), int(n[1]), n[2] == 1, err
}

func decimal(n int64) string { return strconv.FormatInt(n, 10) }

// millis rounds up: not before the time that was named.
func millis(d time.Duration) string {
	return decimal(int64((d + time.Millisecond - 1) / time.Millisecond))
}

func fromMillis(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }

// failure reads what is stored of a failed message.
func failure(entry string) (n int, reason string) {
	count, reason, _ := strings.Cut(entry, " ")
	n, _ = strconv.Atoi(count)
	return n, reason
}
