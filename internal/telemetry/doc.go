// Package telemetry sends traces and metrics over OTLP: requests, turns,
// attempts at providers and calls of tools (admin-and-config, [telemetry]).
//
// It is off by default and then free: everything hangs on a *[Telemetry], whose
// nil value does nothing and allocates nothing. When it is on it carries names,
// counts, durations and ids, never payloads: its methods take no texts of
// messages, prompts or errors, only short reasons out of a small set.
//
// Names follow OpenTelemetry's semantic conventions (http.*, gen_ai.*); what they
// do not cover starts with lambae.
//
// The exporters are packages of their own, otlphttp and otlpgrpc, so that a
// binary links only what it uses. With gRPC it grows by 9 MB, which a Lambda
// function would load at every cold start; with otlphttp by 1.3 MB.
package telemetry
