package rdb

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
)

// version returns that of a payload's footer.
func version(payload []byte) int {
	if len(payload) < footer+1 {
		return 0
	}
	return int(binary.LittleEndian.Uint16(payload[len(payload)-footer:]))
}

// stamp appends their footer to a type and its body.
func stamp(b []byte, version int) []byte {
	b = binary.LittleEndian.AppendUint16(b, uint16(version)) //nolint:gosec // a few dozen
	return binary.LittleEndian.AppendUint64(b, checksum(b))
}

// Fit converts a payload of DUMP for RESTORE on a server that knows the format up to the given version: 9
// for Redis 5.0 to 6.2, 10 for 7.0, 11 for 7.2 and Valkey before 9, 12 for 7.4 and later. It returns
// payload itself when no conversion is needed. It reads payloads of Valkey 9, too.
//
// The error for a value that the version can't hold matches [ErrNewer]. The errors for a broken value are
// as in [Parse].
func Fit(payload []byte, most int) ([]byte, error) {
	v := version(payload)
	if v <= most {
		return payload, nil
	}
	n := len(payload) - footer
	if binary.LittleEndian.Uint64(payload[n+2:]) != checksum(payload[:n+2]) {
		return nil, ErrChecksum
	}
	t := payload[0]
	if t == typeHashValkey && v >= valkeyOldest {
		value, err := parseValkeyHash(payload[1:n])
		if err != nil {
			return nil, err
		}
		return Fit(Payload(nil, value), most)
	}
	if v > VersionFieldTTL && v < valkeyOldest && Unsupported(payload) != "" {
		return nil, fmt.Errorf("%w: type %d in version %d", ErrNewer, t, v)
	}
	if oldest := since(t); oldest <= most {
		return stamp(append([]byte(nil), payload[:n]...), oldest), nil
	}
	if what := Unsupported(payload); what != "" {
		return nil, fmt.Errorf("%w: %s", ErrNewer, what)
	}
	value, err := Parse(stamp(append([]byte(nil), payload[:n]...), VersionFieldTTL))
	if err != nil {
		return nil, err
	}
	if value.Expires != nil {
		return nil, fmt.Errorf("%w: a hash whose fields have a time to live", ErrNewer)
	}
	if value.Kind == Stream && most < since(typeStreamListpacks2) {
		return stamp(appendStream(nil, value.Stream, 1, nil), since(typeStreamListpacks)), nil
	}
	plain := Payload(nil, value)
	return stamp(plain[:len(plain)-footer], since(plain[0])), nil
}

// Check returns the fault of a payload. RESTORE accepts a payload without a fault. Of a type that
// [Unsupported] names, Check checks only the footer.
func Check(payload []byte) error {
	if Unsupported(payload) == "" {
		v, err := Parse(payload)
		if err != nil {
			return err
		}
		return v.check()
	}
	n := len(payload) - footer
	if n < 1 || binary.LittleEndian.Uint64(payload[n+2:]) != checksum(payload[:n+2]) {
		return ErrChecksum
	}
	return nil
}

// check reports what no Redis would have written.
func (v *Value) check() error {
	if len(v.Str) > LargestString {
		return fmt.Errorf("%w: a string of %d bytes", ErrFormat, len(v.Str))
	}
	for i, at := range v.Expires {
		if at > LatestExpire {
			return fmt.Errorf("%w: the deadline of field %.100q is out of range", ErrFormat, v.Elements[i])
		}
	}
	if v.Kind == List || v.Kind == Stream {
		return nil
	}
	if twice := firstTwice(v.Elements); twice != nil {
		return fmt.Errorf("%w: %.100q is in it twice", ErrFormat, twice)
	}
	return nil
}

// firstTwice returns an element that is there twice, nil when all differ.
func firstTwice(all [][]byte) []byte {
	if len(all) <= 16 { // most are small, and this takes no memory
		for i, a := range all {
			for _, b := range all[:i] {
				if bytes.Equal(a, b) {
					return a
				}
			}
		}
		return nil
	}
	seen := make(map[string]struct{}, len(all))
	for _, a := range all {
		if _, ok := seen[string(a)]; ok {
			return a
		}
		seen[string(a)] = struct{}{}
	}
	return nil
}

// parseValkeyHash reads a hash of Valkey 9: field, value and deadline in Unix
// ms, -1 for none.
func parseValkeyHash(body []byte) (*Value, error) {
	r := reader{b: body, left: Largest}
	v := &Value{Kind: Hash}
	for n := r.count(); n > 0 && !r.bad; n-- {
		v.Elements = append(v.Elements, r.string())
		v.Values = append(v.Values, r.string())
		at := int64(0)
		if p := r.take(8); p != nil {
			at = int64(binary.LittleEndian.Uint64(p)) //nolint:gosec // two's complement
		}
		switch {
		case at == -1:
			at = 0
		case at <= 0 || at > maxTime:
			r.bad = true
		}
		v.Expires = append(v.Expires, at)
	}
	if r.left < 0 {
		return nil, fmt.Errorf("%w of %d bytes", ErrTooLarge, int64(Largest))
	}
	if r.bad || len(r.b) > 0 || len(v.Elements) == 0 {
		return nil, fmt.Errorf("%w: type %d", ErrFormat, typeHashValkey)
	}
	return v, nil
}

// errEntry is what is wrong with a value, for the error of a file.
func errEntry(err error) string {
	if errors.Is(err, ErrFormat) {
		return "its value is broken"
	}
	return err.Error()
}
