package queue

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"sync/atomic"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/randid"
)

// KeysOf returns the keys of the queue called name. An invalid name gives an
// error that matches redoubt.ErrInvalidName.
func KeysOf(client *redoubt.Client, name string) (keys Keys, err error) {
	for i, part := range parts {
		if keys[i], err = client.Key(name, part); err != nil {
			return Keys{}, err
		}
	}
	return keys, nil
}

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
	return k[keyQueue] + ":" + part + ":" + ShortHash(text)
}

// Wake is the key of the marker, which BZPOPMIN waits for: while it is there a [Pump]
// may find something.
func (k Keys) Wake() string { return k[keyWake] }

func (k Keys) result(id string) string { return k.hashed("result", id) }

var ids struct {
	base string // 7 bytes
	n    atomic.Uint64
}

func init() {
	ids.base = randid.Bytes(7)
}

// idText is base64 whose letters are in the order of their bytes, so that texts are in
// that of what they stand for.
var idText = base64.NewEncoding("-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz").WithPadding(base64.NoPadding)

// NewID returns the name of a new message: 16 letters, digits, - and _. Those of one
// process are in the order of their bytes.
func NewID() string {
	var b [15]byte
	copy(b[:], ids.base)
	binary.BigEndian.PutUint64(b[7:], ids.n.Add(1)<<24) // the last 40 bits
	return idText.EncodeToString(b[:12])
}

// takeLen is the length of what a receipt begins with: the name of a take.
const takeLen = 16

// NewTake returns a name for the take of a [Pump], which no other has.
func NewTake() string { return randid.Base64(12) }

// ShortHash stands for a text where any text is not allowed: as a [Pump]'s Consumer for the id that
// a client chose, for one.
func ShortHash(text string) string {
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
