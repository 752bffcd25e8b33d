// Package provider is the edge to model APIs. It turns the engine's one shape,
// Anthropic Messages blocks, into what each API wants and back: [Anthropic
// Messages] and [OpenAI Chat Completions] over HTTP, Amazon Bedrock through a
// client that package provider/bedrock links, and echo, a deterministic model
// without a network (see package provider/echo).
//
// A [Registry] holds the entries of bae-config.toml by name. A [Provider] makes
// one attempt at one model, retrying within it only as its entry allows; which
// provider comes next is the engine's business. The package knows nothing of
// sessions, events or tools that run.
//
// Two rules shape the code. What a model or a client said passes byte for byte
// wherever the format is Anthropic's: blocks are cut out of the JSON, never
// decoded and encoded again. And the history, which may be megabytes and is sent
// again on every turn, is neither copied nor parsed by a call: the engine keeps
// the wire form that [Format] made of each message and hands it over in segments.
//
// [Anthropic Messages]: https://docs.anthropic.com/en/api/messages
// [OpenAI Chat Completions]: https://platform.openai.com/docs/api-reference/chat
package provider
