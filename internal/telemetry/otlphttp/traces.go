package otlphttp

import (
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/instrumentation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// Bits of the flags of spans and links, beside those of W3C.
const (
	flagKnowsRemote = 1 << 8
	flagIsRemote    = 1 << 9
)

// encodeSpans makes an ExportTraceServiceRequest. All spans are of one resource,
// that of the provider.
func encodeSpans(spans []sdktrace.ReadOnlySpan) []byte {
	if len(spans) == 0 {
		return nil
	}
	var order []instrumentation.Scope
	scopes := map[instrumentation.Scope]*message{}
	for _, s := range spans {
		scope := s.InstrumentationScope()
		m, ok := scopes[scope]
		if !ok {
			m = &message{}
			m.message(1, scopeMessage(scope))
			scopes[scope] = m
			order = append(order, scope)
		}
		m.message(2, span(s))
	}
	var rs message // ResourceSpans
	rs.message(1, resourceMessage(spans[0].Resource()))
	for _, scope := range order {
		m := scopes[scope]
		m.string(3, scope.SchemaURL)
		rs.message(2, *m)
	}
	rs.string(3, spans[0].Resource().SchemaURL())
	var request message
	request.message(1, rs)
	return request
}

// span is a Span.
func span(s sdktrace.ReadOnlySpan) (m message) {
	sc, parent := s.SpanContext(), s.Parent()
	traceID, spanID := sc.TraceID(), sc.SpanID()
	m.bytes(1, traceID[:])
	m.bytes(2, spanID[:])
	m.string(3, sc.TraceState().String())
	if id := parent.SpanID(); parent.HasSpanID() {
		m.bytes(4, id[:])
	}
	m.string(5, s.Name())
	m.uint(6, uint64(s.SpanKind())) // the API's numbers are OTLP's
	m.time(7, s.StartTime())
	m.time(8, s.EndTime())
	m.attributes(9, s.Attributes())
	m.uint(10, uint64(s.DroppedAttributes()))
	for _, e := range s.Events() {
		var event message
		event.time(1, e.Time)
		event.string(2, e.Name)
		event.attributes(3, e.Attributes)
		event.uint(4, uint64(e.DroppedAttributeCount))
		m.message(11, event)
	}
	m.uint(12, uint64(s.DroppedEvents()))
	for _, l := range s.Links() {
		var link message
		traceID, spanID := l.SpanContext.TraceID(), l.SpanContext.SpanID()
		link.bytes(1, traceID[:])
		link.bytes(2, spanID[:])
		link.string(3, l.SpanContext.TraceState().String())
		link.attributes(4, l.Attributes)
		link.uint(5, uint64(l.DroppedAttributeCount))
		link.fixed32(6, flags(sc, l.SpanContext))
		m.message(13, link)
	}
	m.uint(14, uint64(s.DroppedLinks()))
	var status message
	status.string(2, s.Status().Description)
	switch s.Status().Code { // here the numbers differ
	case codes.Ok:
		status.uint(3, 1)
	case codes.Error:
		status.uint(3, 2)
	}
	m.message(15, status)
	m.fixed32(16, flags(sc, parent))
	return m
}

// flags are those of sc, and whether the one it points to is remote.
func flags(sc, to trace.SpanContext) uint32 {
	f := uint32(sc.TraceFlags()) | flagKnowsRemote
	if to.IsRemote() {
		f |= flagIsRemote
	}
	return f
}
