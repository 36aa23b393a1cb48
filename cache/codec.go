package cache

import (
	"bytes"
	"compress/flate"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"sync"
)

// A Codec turns values into bytes and back. Its methods may be called by many
// goroutines at once.
type Codec[V any] interface {
	// Append appends the encoding of v to dst.
	Append(dst []byte, v V) ([]byte, error)
	// Decode returns the value of an encoding. It must neither keep data nor change it. After an
	// error the entry counts as missing and is loaded again.
	Decode(data []byte) (V, error)
}

// JSON encodes values by encoding/json. It is the default.
func JSON[V any]() Codec[V] { return jsonCodec[V]{} }

type jsonCodec[V any] struct{}

func (jsonCodec[V]) Append(dst []byte, v V) ([]byte, error) {
	b, err := json.Marshal(v)
	return append(dst, b...), err
}

func (jsonCodec[V]) Decode(data []byte) (v V, err error) {
	err = json.Unmarshal(data, &v)
	return v, err
}

// Bytes stores bytes unchanged.
func Bytes() Codec[[]byte] { return bytesCodec{} }

type bytesCodec struct{}

func (bytesCodec) Append(dst, v []byte) ([]byte, error) { return append(dst, v...), nil }
func (bytesCodec) Decode(data []byte) ([]byte, error)   { return bytes.Clone(data), nil }

// Text stores text unchanged.
func Text() Codec[string] { return textCodec{} }

type textCodec struct{}

func (textCodec) Append(dst []byte, v string) ([]byte, error) { return append(dst, v...), nil }
func (textCodec) Decode(data []byte) (string, error)          { return string(data), nil }

// A payloadDecoder is a Codec that decodes a payload without a copy in between.
type payloadDecoder[V any] interface {
	decodePayload(payload string) V
}

func (bytesCodec) decodePayload(payload string) []byte { return []byte(payload) }
func (textCodec) decodePayload(payload string) string  { return payload }

var deflaters = sync.Pool{New: func() any {
	w, _ := flate.NewWriter(nil, flate.BestSpeed) // fails only for a bad level
	return w
}}

// deflate returns the data compressed, or unchanged if that is no shorter.
func deflate(data []byte) (out []byte, encoding byte) {
	var b bytes.Buffer
	w := deflaters.Get().(*flate.Writer)
	defer deflaters.Put(w)
	w.Reset(&b)
	_, _ = w.Write(data) // a Buffer doesn't fail
	_ = w.Close()
	if b.Len() >= len(data) {
		return data, plain
	}
	return b.Bytes(), deflated
}

// inflate reverses deflate, up to limit bytes: any program that may write to the server can write
// an entry.
func inflate(payload string, limit int) ([]byte, error) {
	r := flate.NewReader(bytes.NewReader([]byte(payload)))
	data, err := io.ReadAll(io.LimitReader(r, int64(limit)+1))
	if err == nil && len(data) > limit {
		err = fmt.Errorf("cache: an entry has more than %d bytes after decompression", limit)
	}
	return data, err
}

// encode returns the payload for v. A value of more than MaxBytes gives an error that
// matches ErrTooLarge.
func (c *Cache[K, V]) encode(v V) (payload string, encoding byte, err error) {
	data, err := c.opts.Codec.Append(nil, v)
	if err != nil {
		return "", plain, fmt.Errorf("cache: encoding a value: %w", err)
	}
	if len(data) > c.opts.MaxBytes {
		return "", plain, fmt.Errorf("%w: it has %d bytes; want at most %d", ErrTooLarge, len(data), c.opts.MaxBytes)
	}
	encoding = plain
	if c.opts.Compress > 0 && len(data) >= c.opts.Compress {
		data, encoding = deflate(data)
	}
	return string(data), encoding, nil
}

// decode is the reverse of encode.
func (c *Cache[K, V]) decode(e entry) (v V, found bool, err error) {
	if e.kind == kindNegative {
		return v, false, nil
	}
	var data []byte
	switch e.encoding {
	case plain:
		if d, ok := c.opts.Codec.(payloadDecoder[V]); ok {
			return d.decodePayload(e.payload), true, nil
		}
		data = []byte(e.payload)
	case deflated:
		if data, err = inflate(e.payload, c.opts.MaxBytes); err != nil {
			return v, false, err
		}
	default:
		return v, false, fmt.Errorf("cache: this program does not know the encoding %q of an entry", e.encoding)
	}
	v, err = c.opts.Codec.Decode(slices.Clip(data))
	return v, err == nil, err
}
