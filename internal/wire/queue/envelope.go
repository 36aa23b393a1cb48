package queue

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

const (
	// MaxID is the longest id, and the longest group and unique key, in bytes.
	MaxID = 255
	// MaxPayload is the longest payload, in bytes. It occupies the server for 12 ms. Keep
	// larger data in a store and put its name into the message.
	MaxPayload = 4 << 20
	// MaxAttempts is the largest number of attempts.
	MaxAttempts = 65535
	// MaxBatch is how many messages one call may put.
	MaxBatch = 10_000
	// MaxBatchBytes is how many bytes the messages of one call may have together, counting
	// payloads, headers and groups. One message alone may have more.
	MaxBatchBytes = 4 << 20
	// MaxTime bounds delays, leases and all other times.
	MaxTime = 10 * 365 * 24 * time.Hour

	// MaxAfter is how many messages one may come after, and how many all messages of one put have together.
	MaxAfter = 1000

	maxHeaders = 65535 // bytes
)

// A Lane is a priority. Messages of the lane with the largest number are taken first. The zero value is
// [Normal].
type Lane int8

// The lanes.
const (
	Low    Lane = -1
	Normal Lane = 0
	High   Lane = 1
	Urgent Lane = 2
)

const lanes = 4

// A Message is one message with its settings.
type Message struct {
	// ID names the message: 1 to [MaxID] bytes. A repeated put with the same ID does
	// nothing while the message is in the queue; it replaces a dead one.
	ID string
	// Payload is the content, any bytes: at most [MaxPayload].
	Payload []byte
	// Delay is the time until the message is due. Not both with At.
	Delay time.Duration
	// At is when it is due, by the server's clock; a past time means now.
	At time.Time
	// Attempts is how often it may fail until it is dead: 1 to [MaxAttempts], or
	// [Unlimited].
	Attempts int
	// Unique drops the message if one with the same key was put within the last
	// UniqueFor, even if that one is done. At most [MaxID] bytes.
	Unique    string
	UniqueFor time.Duration
	// Lane is its priority. Defaults to Normal.
	Lane Lane
	// Group makes the messages of a group run one at a time, in the order in which they
	// became due. Empty: no group. At most [MaxID] bytes.
	Group string
	// Headers travel with the payload, 65535 bytes in all.
	Headers map[string]string
	// After are the ids of messages that must be done before this one, at most
	// [MaxAfter]. A message that is not in the queue counts as done.
	After []string
	// IgnoreFailure makes it ready also when one of After dies or is removed. Otherwise it dies then.
	IgnoreFailure bool
}

// Unlimited is a number of attempts: the message never dies.
const Unlimited = -1

func (m *Message) check() error {
	errs := []error{CheckID(m.ID), CheckTime("delay", m.Delay, 0)}
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf("queue: "+format, args...)) }
	if len(m.Payload) > MaxPayload {
		bad("payload has %d bytes; want at most %d", len(m.Payload), MaxPayload)
	}
	if m.Delay != 0 && !m.At.IsZero() {
		bad("both delay and at are set; want one")
	}
	if !m.At.IsZero() && (m.At.Year() < 1970 || m.At.Year() > 2200) {
		bad("at is %v; want a year from 1970 to 2200", m.At)
	}
	if m.Attempts != Unlimited && (m.Attempts < 1 || m.Attempts > MaxAttempts) {
		bad("attempts is %d; want 1 to %d, or Unlimited", m.Attempts, MaxAttempts)
	}
	if m.Lane < Low || m.Lane > Urgent {
		bad("lane is %d; want %d to %d", m.Lane, Low, Urgent)
	}
	if len(m.Group) > MaxID {
		bad("group has %d bytes; want at most %d", len(m.Group), MaxID)
	}
	switch {
	case m.Unique == "" && m.UniqueFor != 0:
		bad("unique key is empty but has a time; set both or neither")
	case len(m.Unique) > MaxID:
		bad("unique key has %d bytes; want at most %d", len(m.Unique), MaxID)
	case m.Unique != "":
		errs = append(errs, CheckTime("time of the unique key", m.UniqueFor, time.Millisecond))
	}
	if len(m.After) > MaxAfter {
		bad("it comes after %d messages; want at most %d", len(m.After), MaxAfter)
	}
	met := map[string]bool{m.ID: true}
	for _, id := range m.After {
		if err := CheckID(id); err != nil {
			bad("after: %w", err)
		} else if met[id] {
			bad("after: %.100q is the message itself, or named twice", id)
		}
		met[id] = true
	}
	if m.IgnoreFailure && len(m.After) == 0 {
		bad("failures are to be ignored, but it comes after no message")
	}
	if n := len(packHeaders(m.Headers)); n > maxHeaders {
		bad("headers have %d bytes; want at most %d", n, maxHeaders)
	}
	return errors.Join(errs...)
}

// CheckID returns an error unless id has 1 to [MaxID] bytes.
func CheckID(id string) error {
	if id == "" || len(id) > MaxID {
		return fmt.Errorf("queue: id has %d bytes; want 1 to %d", len(id), MaxID)
	}
	return nil
}

// CheckTime returns an error unless d is between least and [MaxTime]. what names d in the error.
func CheckTime(what string, d, least time.Duration) error {
	if d < least || d > MaxTime {
		return fmt.Errorf("queue: %s is %v; want %v to %v", what, d, least, MaxTime)
	}
	return nil
}

// An envelope is a stored message: one byte with the rank of its lane, plus 4 if it has a group, 8
// if it has headers and 16 if it comes after others; two bytes with the attempts, 0 for no limit; the
// group after one byte with its length; of the messages that it comes after one byte, 1 if failures are
// ignored, two bytes with their number, and each id after one byte with its length; the headers after two
// bytes with theirs; the payload. The scripts read it up to the headers.
const (
	withGroup   = 4
	withHeaders = 8
	withAfter   = 16
)

// size is an upper bound of the length of the envelope.
func (m *Message) size() int { return SizeOf(m.Payload, m.Group, m.Headers, m.After) }

// SizeOf returns an upper bound of the length of a stored message.
func SizeOf(payload []byte, group string, headers map[string]string, after []string) int {
	n := len(payload) + len(group) + 6
	if len(after) > 0 {
		n += 3
	}
	for _, id := range after {
		n += 1 + len(id)
	}
	for key, value := range headers {
		n += len(key) + len(value) + 2*binary.MaxVarintLen16
	}
	return n
}

func (m *Message) envelope() string {
	headers := packHeaders(m.Headers)
	b := make([]byte, 3, m.size()+len(headers))
	b[0] = byte(Urgent - m.Lane)
	if m.Attempts != Unlimited {
		binary.BigEndian.PutUint16(b[1:], uint16(m.Attempts)) //nolint:gosec // checked
	}
	if m.Group != "" {
		b[0] |= withGroup
		b = append(append(b, byte(len(m.Group))), m.Group...) //nolint:gosec // checked
	}
	if len(m.After) > 0 {
		b[0] |= withAfter
		ignore := byte(0)
		if m.IgnoreFailure {
			ignore = 1
		}
		b = binary.BigEndian.AppendUint16(append(b, ignore), uint16(len(m.After))) //nolint:gosec // checked
		for _, id := range m.After {
			b = append(append(b, byte(len(id))), id...) //nolint:gosec // checked
		}
	}
	if len(headers) > 0 {
		b[0] |= withHeaders
		b = append(binary.BigEndian.AppendUint16(b, uint16(len(headers))), headers...) //nolint:gosec // checked
	}
	return string(append(b, m.Payload...))
}

// packHeaders writes keys and values, each after its length, sorted by key.
func packHeaders(headers map[string]string) (b []byte) {
	for _, key := range slices.Sorted(maps.Keys(headers)) {
		for _, text := range []string{key, headers[key]} {
			b = append(binary.AppendUvarint(b, uint64(len(text))), text...)
		}
	}
	return b
}

// ErrEnvelope is matched when a stored entry is not a message.
var ErrEnvelope = errors.New("queue: a stored entry is not a message; another program may have written it")

// openAny decodes an envelope. Bytes of another program become the payload, and readable is false.
func openAny(id, envelope string) (m Message, readable bool) {
	m, err := openEnvelope(id, envelope)
	if err != nil {
		return Message{ID: id, Payload: []byte(envelope), Attempts: Unlimited}, false
	}
	return m, true
}

// openEnvelope decodes an envelope.
func openEnvelope(id, envelope string) (m Message, err error) {
	b := []byte(envelope)
	if len(b) < 3 || b[0] >= 2*withAfter {
		return m, ErrEnvelope
	}
	flags := b[0]
	m = Message{ID: id, Lane: Urgent - Lane(flags%lanes), Attempts: int(binary.BigEndian.Uint16(b[1:]))} //nolint:gosec // < 4
	if m.Attempts == 0 {
		m.Attempts = Unlimited
	}
	b = b[3:]
	if flags&withGroup != 0 {
		if len(b) == 0 || len(b) <= int(b[0]) {
			return m, ErrEnvelope
		}
		n := 1 + int(b[0])
		m.Group, b = string(b[1:n]), b[n:]
	}
	if flags&withAfter != 0 {
		if b, err = m.openAfter(b); err != nil {
			return m, err
		}
	}
	if flags&withHeaders != 0 {
		if len(b) < 2 || len(b)-2 < int(binary.BigEndian.Uint16(b)) {
			return m, ErrEnvelope
		}
		n := 2 + int(binary.BigEndian.Uint16(b))
		if m.Headers, err = openHeaders(b[2:n]); err != nil {
			return m, err
		}
		b = b[n:]
	}
	m.Payload = b
	return m, nil
}

// openAfter reads what the message comes after, and returns the rest.
func (m *Message) openAfter(b []byte) (rest []byte, err error) {
	if len(b) < 3 || b[0] > 1 {
		return nil, ErrEnvelope
	}
	m.IgnoreFailure = b[0] == 1
	n := int(binary.BigEndian.Uint16(b[1:]))
	for b = b[3:]; len(m.After) < n; {
		if len(b) == 0 || len(b) <= int(b[0]) {
			return nil, ErrEnvelope
		}
		m.After, b = append(m.After, string(b[1:1+int(b[0])])), b[1+int(b[0]):]
	}
	return b, nil
}

func openHeaders(b []byte) (map[string]string, error) {
	headers := map[string]string{}
	for len(b) > 0 {
		var pair [2]string
		for i := range pair {
			n, used := binary.Uvarint(b)
			if used <= 0 || uint64(len(b)-used) < n { //nolint:gosec // not negative
				return nil, ErrEnvelope
			}
			pair[i] = string(b[used : used+int(n)]) //nolint:gosec // at most the length
			b = b[used+int(n):]                     //nolint:gosec // as above
		}
		headers[pair[0]] = pair[1]
	}
	return headers, nil
}

func (m *Message) when() string {
	switch {
	case m.Delay > 0:
		return "-" + millis(m.Delay)
	case !m.At.IsZero():
		// Rounded up, so that the message is not due before its time.
		return decimal((m.At.UnixMicro() + 999) / 1000)
	}
	return "0"
}
