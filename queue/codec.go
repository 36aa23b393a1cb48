package queue

import (
	"encoding/json"
	"fmt"
	"reflect"
)

// A Codec turns values into payloads and back. Its methods may be called by many
// goroutines at once.
type Codec interface {
	// Encode returns the payload of v, a value of the Queue's type.
	Encode(v any) ([]byte, error)
	// Decode reads a payload into v, a pointer to a value of the Queue's type.
	Decode(payload []byte, v any) error
}

// JSON encodes values of any type with encoding/json.
type JSON struct{}

// Encode implements [Codec].
func (JSON) Encode(v any) ([]byte, error) { return json.Marshal(v) }

// Decode implements [Codec].
func (JSON) Decode(payload []byte, v any) error { return json.Unmarshal(payload, v) }

// Bytes passes values of the types []byte and string as they are.
type Bytes struct{}

// Encode implements [Codec].
func (Bytes) Encode(v any) ([]byte, error) {
	switch v := v.(type) {
	case []byte:
		return v, nil
	case string:
		return []byte(v), nil
	}
	return nil, fmt.Errorf("the codec Bytes is for []byte and string, not %T", v)
}

// Decode implements [Codec].
func (Bytes) Decode(payload []byte, v any) error {
	switch v := v.(type) {
	case *[]byte:
		*v = payload
	case *string:
		*v = string(payload)
	default:
		return fmt.Errorf("the codec Bytes is for []byte and string, not %T", v)
	}
	return nil
}

// Proto returns a codec that marshals by two functions, as protocol buffers do:
//
//	queue.New[*pb.Order](client, queue.Options{Codec: queue.Proto(proto.Marshal, proto.Unmarshal)})
//
// The type of the Queue must be a pointer that implements M.
func Proto[M any](marshal func(M) ([]byte, error), unmarshal func([]byte, M) error) Codec {
	return protoCodec[M]{marshal, unmarshal}
}

type protoCodec[M any] struct {
	marshal   func(M) ([]byte, error)
	unmarshal func([]byte, M) error
}

func (c protoCodec[M]) Encode(v any) ([]byte, error) {
	m, ok := v.(M)
	if !ok {
		return nil, fmt.Errorf("%T is no %v", v, reflect.TypeFor[M]())
	}
	return c.marshal(m)
}

func (c protoCodec[M]) Decode(payload []byte, v any) error {
	into := reflect.ValueOf(v).Elem() // of the type *Order
	if into.Kind() != reflect.Pointer {
		return fmt.Errorf("%v is no pointer", into.Type())
	}
	fresh := reflect.New(into.Type().Elem())
	m, ok := reflect.TypeAssert[M](fresh)
	if !ok {
		return fmt.Errorf("%v is no %v", into.Type(), reflect.TypeFor[M]())
	}
	if err := c.unmarshal(payload, m); err != nil {
		return err
	}
	into.Set(fresh)
	return nil
}
