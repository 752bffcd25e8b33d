package otlphttp

import (
	"math"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/instrumentation"
	"go.opentelemetry.io/otel/sdk/resource"
	"google.golang.org/protobuf/encoding/protowire"
)

// message is an encoded protobuf message under construction. Each method adds a
// field; as in proto3, a zero value adds none.
type message []byte

func (m *message) bytes(field protowire.Number, b []byte) {
	if len(b) > 0 {
		*m = protowire.AppendBytes(protowire.AppendTag(*m, field, protowire.BytesType), b)
	}
}

func (m *message) string(field protowire.Number, s string) {
	if s != "" {
		*m = protowire.AppendString(protowire.AppendTag(*m, field, protowire.BytesType), s)
	}
}

// message adds a nested one, an empty one too: it counts in a repeated field.
func (m *message) message(field protowire.Number, sub message) {
	*m = protowire.AppendBytes(protowire.AppendTag(*m, field, protowire.BytesType), sub)
}

func (m *message) uint(field protowire.Number, v uint64) {
	if v != 0 {
		*m = protowire.AppendVarint(protowire.AppendTag(*m, field, protowire.VarintType), v)
	}
}

func (m *message) fixed32(field protowire.Number, v uint32) {
	if v != 0 {
		*m = protowire.AppendFixed32(protowire.AppendTag(*m, field, protowire.Fixed32Type), v)
	}
}

func (m *message) fixed64(field protowire.Number, v uint64) {
	if v != 0 {
		m.set64(field, v)
	}
}

// set64 adds the field even if it is zero, for members of a oneof and optional
// ones.
func (m *message) set64(field protowire.Number, v uint64) {
	*m = protowire.AppendFixed64(protowire.AppendTag(*m, field, protowire.Fixed64Type), v)
}

func (m *message) double(field protowire.Number, v float64) { m.set64(field, math.Float64bits(v)) }

// time adds nanoseconds since 1970; a zero time is unknown.
func (m *message) time(field protowire.Number, t time.Time) {
	if !t.IsZero() {
		m.fixed64(field, uint64(t.UnixNano()))
	}
}

// attributes adds repeated KeyValue.
func (m *message) attributes(field protowire.Number, attrs []attribute.KeyValue) {
	for _, kv := range attrs {
		var pair message
		pair.string(1, string(kv.Key))
		pair.message(2, value(kv.Value))
		m.message(field, pair)
	}
}

// value is an AnyValue.
func value(v attribute.Value) (m message) {
	number := func(i int64) message {
		return protowire.AppendVarint(protowire.AppendTag(nil, 3, protowire.VarintType), uint64(i))
	}
	boolean := func(b bool) message {
		return protowire.AppendVarint(protowire.AppendTag(nil, 2, protowire.VarintType), protowire.EncodeBool(b))
	}
	double := func(f float64) (m message) { m.double(4, f); return m }
	text := func(s string) message {
		return protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), s)
	}
	switch v.Type() {
	case attribute.BOOL:
		return boolean(v.AsBool())
	case attribute.INT64:
		return number(v.AsInt64())
	case attribute.FLOAT64:
		return double(v.AsFloat64())
	case attribute.BOOLSLICE:
		return array(v.AsBoolSlice(), boolean)
	case attribute.INT64SLICE:
		return array(v.AsInt64Slice(), number)
	case attribute.FLOAT64SLICE:
		return array(v.AsFloat64Slice(), double)
	case attribute.STRINGSLICE:
		return array(v.AsStringSlice(), text)
	default:
		return text(v.String())
	}
}

// array is an AnyValue that holds an ArrayValue.
func array[T any](values []T, element func(T) message) (m message) {
	var list message
	for _, v := range values {
		list.message(1, element(v))
	}
	m.message(5, list)
	return m
}

// resourceMessage is a Resource.
func resourceMessage(r *resource.Resource) (m message) {
	m.attributes(1, r.Attributes())
	return m
}

// scopeMessage is an InstrumentationScope.
func scopeMessage(s instrumentation.Scope) (m message) {
	m.string(1, s.Name)
	m.string(2, s.Version)
	m.attributes(3, s.Attributes.ToSlice())
	return m
}
