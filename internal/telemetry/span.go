package telemetry

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	"go.opentelemetry.io/otel/trace"
)

// Span is an operation under way: a span of the trace, and what is measured at
// its end. The zero Span, which a nil [Telemetry] starts, does nothing.
type Span struct{ *operation }

type operation struct {
	tel      *Telemetry
	span     trace.Span
	start    time.Time
	duration metric.Float64Histogram
	active   metric.Int64UpDownCounter // may be nil
	// dims are the attributes of the metrics: few values each.
	dims []attribute.KeyValue
}

// Turn starts the span of a turn, or of the part that runs until a pause.
func (t *Telemetry) Turn(ctx context.Context, sessionID string) (context.Context, Span) {
	if t == nil {
		return ctx, Span{}
	}
	ctx, s := t.begin(ctx, "turn", trace.SpanKindInternal, t.turns, t.turnsOpen, nil)
	s.span.SetAttributes(attribute.String("lambae.session.id", sessionID))
	return ctx, s
}

// Attempt starts the span of one call of a provider. Kind is the wire format of
// the configuration (anthropic, openai, bedrock, echo), attempt counts from 0 for
// the primary.
func (t *Telemetry) Attempt(ctx context.Context, kind, model string, attempt int) (context.Context, Span) {
	if t == nil {
		return ctx, Span{}
	}
	if kind == "bedrock" {
		kind = "aws.bedrock" // as the semantic conventions call it
	}
	ctx, s := t.begin(ctx, "chat "+model, trace.SpanKindClient, t.attempts, nil, []attribute.KeyValue{
		semconv.GenAIOperationNameChat,
		semconv.GenAIProviderNameKey.String(kind),
		semconv.GenAIRequestModel(model),
	})
	s.span.SetAttributes(attribute.Int("lambae.attempt", attempt))
	return ctx, s
}

// Tool starts the span of a server-side call of a tool. Dispatch says who runs
// it: mcp, sandbox or subagent.
func (t *Telemetry) Tool(ctx context.Context, name, dispatch string) (context.Context, Span) {
	if t == nil {
		return ctx, Span{}
	}
	ctx, s := t.begin(ctx, "execute_tool "+name, trace.SpanKindInternal, t.tools, nil, []attribute.KeyValue{
		attribute.String("lambae.tool.dispatch", dispatch),
	})
	// The name is no dimension of the metric: models invent names.
	s.span.SetAttributes(semconv.GenAIOperationNameExecuteTool, semconv.GenAIToolName(name))
	return ctx, s
}

func (t *Telemetry) begin(ctx context.Context, name string, kind trace.SpanKind, duration metric.Float64Histogram, active metric.Int64UpDownCounter, dims []attribute.KeyValue) (context.Context, Span) {
	ctx, span := t.tracer.Start(ctx, name, trace.WithSpanKind(kind), trace.WithAttributes(dims...))
	if active != nil {
		active.Add(ctx, 1)
	}
	return ctx, Span{&operation{tel: t, span: span, start: time.Now(), duration: duration, active: active, dims: dims}}
}

// Usage counts the tokens of one attempt, as a provider reports them.
type Usage struct{ Input, Output, CacheRead, CacheWrite int64 }

// Tokens records the usage of an attempt, before its End.
func (s Span) Tokens(ctx context.Context, u Usage) {
	if s.operation == nil {
		return
	}
	s.span.SetAttributes(semconv.GenAIUsageInputTokens(int(u.Input)), semconv.GenAIUsageOutputTokens(int(u.Output)))
	if u.CacheRead > 0 || u.CacheWrite > 0 {
		s.span.SetAttributes(semconv.GenAIUsageCacheReadInputTokens(int(u.CacheRead)),
			semconv.GenAIUsageCacheCreationInputTokens(int(u.CacheWrite)))
	}
	dims := metric.WithAttributes(s.dims...)
	s.tel.tokens.Record(ctx, u.Input, dims, metric.WithAttributes(semconv.GenAITokenTypeInput))
	s.tel.tokens.Record(ctx, u.Output, dims, metric.WithAttributes(semconv.GenAITokenTypeOutput))
}

// Status records the HTTP status a provider answered with.
func (s Span) Status(code int) {
	if s.operation == nil {
		return
	}
	s.add(semconv.HTTPResponseStatusCode(code))
}

// add sets attributes on the span and on the metrics to come.
func (s Span) add(attrs ...attribute.KeyValue) {
	s.span.SetAttributes(attrs...)
	s.dims = append(s.dims, attrs...)
}

// End ends the operation; it is called once. Reason is "" for a success, else one
// of few words, as "timeout" or "all_providers_failed". It must hold no text of
// an error: those quote what people wrote.
func (s Span) End(ctx context.Context, reason string) {
	if s.operation == nil {
		return
	}
	if s.active != nil {
		s.active.Add(ctx, -1)
	}
	if reason != "" {
		s.add(semconv.ErrorTypeKey.String(reason))
		s.span.SetStatus(codes.Error, "")
	}
	s.duration.Record(ctx, time.Since(s.start).Seconds(), metric.WithAttributes(s.dims...))
	s.span.End()
}
