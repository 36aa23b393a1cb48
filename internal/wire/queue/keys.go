package queue

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/randid"
)

// KeysOf returns the keys of the queue called name. An invalid name gives an
// error that matches redoubt.ErrInvalidName.
func KeysOf(client *redoubt.Client, name string) (keys Keys, err error) {
	head, err := client.Key(name, "")
	if err != nil {
		return keys, err
	}
	var b strings.Builder // all keys in one piece of memory
	b.Grow(len(parts)*len(head) + lenParts)
	for _, part := range parts {
		b.WriteString(head)
		b.WriteString(part)
	}
	all := b.String()
	for i, part := range parts {
		n := len(head) + len(part)
		keys[i], all = all[:n], all[n:]
	}
	return keys, nil
}

// Keys are the keys of one queue: one for each of parts. They share a hash tag.
type Keys [12]string

// queuePart ends the key of the hash that every queue with messages has.
const queuePart = "queue"

// wakePart ends the key of the wake-up marker.
const wakePart = "queue:wake"

var parts = [len(Keys{})]string{
	queuePart, "queue:ready", "queue:groups", "queue:due", "queue:dead", "queue:fails", wakePart, "queue:leases", "queue:config",
	"queue:blocked", "queue:links", "queue:ended",
}

var lenParts = len(strings.Join(parts[:], ""))

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
	keyBlocked
)

// after returns the keys of messages that come after others, behind the first n keys.
func (k *Keys) after(n int) []string { return append(slices.Clone(k[:n]), k[keyBlocked:]...) }

// hashed returns the key of a part that a caller's text names.
func (k Keys) hashed(part, text string) string {
	return k[keyQueue] + ":" + part + ":" + ShortHash(text)
}

// Wake returns the key of the wake-up marker, for BZPOPMIN. While the marker is there a [Pump] may
// find a message.
func (k Keys) Wake() string { return k[keyWake] }

// IsWake reports whether a key is the wake-up marker of a queue.
func IsWake(key []byte) bool { return bytes.HasSuffix(key, []byte("}:"+wakePart)) }

func (k Keys) result(id string) string   { return k.hashed("result", id) }
func (k Keys) progress(id string) string { return k.hashed("progress", id) }

var ids struct {
	base string // 7 bytes
	n    atomic.Uint64
}

func init() {
	ids.base = randid.Bytes(7)
}

// idText is base64 with an alphabet in byte order, so that encoded ids sort like the bytes they encode.
var idText = base64.NewEncoding("-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz").WithPadding(base64.NoPadding)

// NewID returns an id for a new message: 16 letters, digits, - and _. The ids of one process
// sort in the order in which they were made.
func NewID() string {
	var b [15]byte
	copy(b[:], ids.base)
	binary.BigEndian.PutUint64(b[7:], ids.n.Add(1)<<24) // the last 40 bits
	return idText.EncodeToString(b[:12])
}

// takeLen is the length of the name of a take, with which a receipt begins.
const takeLen = 16

// NewTake returns a unique name for the take of a [Pump].
func NewTake() string { return randid.Base64(12) }

// ShortHash turns any text into a short one that keys and the Consumer of a [Pump] allow.
func ShortHash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return base64.RawURLEncoding.EncodeToString(sum[:12])
}

// IDOf returns the message id in a receipt, or nothing if the text is not a receipt.
func IDOf(receipt string) string {
	if len(receipt) <= takeLen {
		return ""
	}
	return receipt[takeLen:]
}
