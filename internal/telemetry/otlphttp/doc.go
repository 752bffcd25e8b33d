// Package otlphttp exports traces and metrics over OTLP/HTTP with binary
// protobuf. It writes the few messages itself (opentelemetry/proto, v1): the
// generated ones come with gRPC and the whole of protobuf, 8 MB that a Lambda
// function would load at every cold start.
package otlphttp
