package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"
)

// Kinds of provider: the wire format an entry speaks.
const (
	KindAnthropic = "anthropic"
	KindOpenAI    = "openai"
	KindBedrock   = "bedrock"
	KindEcho      = "echo"
)

// Transports of MCP servers. TransportHTTP is streamable HTTP.
const (
	TransportStdio = "stdio"
	TransportHTTP  = "http"
	TransportSSE   = "sse"
)

// DefaultMaxTokens is the max_tokens of an entry that sets none.
const DefaultMaxTokens = 4096

// File is a parsed bae-config.toml. The zero File is an empty registry.
type File struct {
	Providers []Provider
	MCP       []MCPServer
	Telemetry Telemetry
	// Unused lists keys of the known tables that nothing reads, a misspelt
	// auth_token for instance. They are worth a warning, not a failed start.
	Unused []string
}

// Provider is one [[providers.entries]]: a model and how to reach it.
type Provider struct {
	Name      string `json:"name"`
	Kind      string `json:"provider"` // anthropic | openai | bedrock | echo
	Model     string `json:"model"`
	AuthToken string `json:"auth_token"` // may hold ${…}, see [Resolver]
	MaxTokens int    `json:"max_tokens"`
	// BaseURL is as written; "" means the kind's own host.
	BaseURL string `json:"base_url"`
	// MaxRetries is how often one attempt may call again after 429, 5xx or a
	// broken connection.
	MaxRetries int `json:"max_retries"`
}

// MCPServer is one [[mcp.servers]]: a process to start or an address to call.
type MCPServer struct {
	Name      string            `toml:"name" json:"name"`
	Transport string            `toml:"transport" json:"transport"` // stdio | http | sse
	Command   string            `toml:"command" json:"command"`
	Args      []string          `toml:"args" json:"args"`       // may hold ${…}
	Env       map[string]string `toml:"env" json:"env"`         // values may hold ${…}
	URL       string            `toml:"url" json:"url"`         // http and sse
	Headers   map[string]string `toml:"headers" json:"headers"` // values may hold ${…}
}

// Telemetry is the [telemetry] table: where traces and metrics go over OTLP.
type Telemetry struct {
	Enabled      bool              `toml:"enabled" json:"enabled"`
	OTLPEndpoint string            `toml:"otlp_endpoint" json:"otlp_endpoint"`
	SampleRatio  float64           `toml:"sample_ratio" json:"sample_ratio"` // 0..1
	ServiceName  string            `toml:"service_name" json:"service_name"`
	Headers      map[string]string `toml:"otlp_headers" json:"otlp_headers"` // values may hold ${…}
	// TracesOff and MetricsOff are false unless [telemetry.traces] or
	// [telemetry.metrics] says enabled = false.
	TracesOff       bool     `toml:"-" json:"traces_off"`
	MetricsOff      bool     `toml:"-" json:"metrics_off"`
	DisabledMetrics []string `toml:"-" json:"disabled_metrics"` // by name
}

// document is the file as TOML sees it. Pointers tell an absent number, which
// has a default, from a zero, which is somebody's mistake.
type document struct {
	Providers struct {
		Entries []struct {
			Name       string `toml:"name"`
			Kind       string `toml:"provider"`
			Model      string `toml:"model"`
			AuthToken  string `toml:"auth_token"`
			MaxTokens  *int   `toml:"max_tokens"`
			BaseURL    string `toml:"base_url"`
			MaxRetries int    `toml:"max_retries"`
		} `toml:"entries"`
	} `toml:"providers"`
	MCP struct {
		Servers []MCPServer `toml:"servers"`
	} `toml:"mcp"`
	Telemetry struct {
		Telemetry
		Traces struct {
			Enabled *bool `toml:"enabled"`
		} `toml:"traces"`
		Metrics struct {
			Enabled  *bool    `toml:"enabled"`
			Disabled []string `toml:"disabled"`
		} `toml:"metrics"`
	} `toml:"telemetry"`
}

// telemetry is the [telemetry] table with those below it.
func (d *document) telemetry() Telemetry {
	t, off := d.Telemetry.Telemetry, func(enabled *bool) bool { return enabled != nil && !*enabled }
	t.TracesOff, t.MetricsOff = off(d.Telemetry.Traces.Enabled), off(d.Telemetry.Metrics.Enabled)
	t.DisabledMetrics = d.Telemetry.Metrics.Disabled
	return t
}

// Load reads the file at path. A missing file is an empty registry. Any other
// error is fatal for a start: the file cannot be read, is not TOML, or breaks a
// rule, every broken one being named (admin-and-config, "bae-config.toml").
func Load(path string) (*File, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Parse(nil)
	}
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	f, err := Parse(data)
	if err != nil {
		return nil, fmt.Errorf("configuration %s: %w", path, err)
	}
	return f, nil
}

// Parse is [Load] for the bytes of a file.
func Parse(data []byte) (*File, error) {
	var doc document
	doc.Telemetry.SampleRatio, doc.Telemetry.ServiceName = 1, "lambae"
	meta, err := toml.Decode(string(data), &doc)
	if err != nil {
		return nil, tomlError(err)
	}
	f := &File{MCP: doc.MCP.Servers, Telemetry: doc.telemetry()}
	for _, e := range doc.Providers.Entries {
		p := Provider{
			Name: e.Name, Kind: e.Kind, Model: e.Model, AuthToken: e.AuthToken,
			MaxTokens: DefaultMaxTokens, BaseURL: e.BaseURL, MaxRetries: e.MaxRetries,
		}
		if e.MaxTokens != nil {
			p.MaxTokens = *e.MaxTokens
		}
		if p.Kind == KindEcho && p.Model == "" {
			p.Model = "echo"
		}
		f.Providers = append(f.Providers, p)
	}
	for _, key := range meta.Undecoded() {
		if slices.Contains([]string{"providers", "mcp", "telemetry"}, key[0]) {
			f.Unused = append(f.Unused, key.String())
		}
	}
	if err := check(f); err != nil {
		return nil, err
	}
	return f, nil
}

// tomlError keeps the place of a syntax error but not its wording where that
// could quote a secret: an unquoted token is a frequent slip.
func tomlError(err error) error {
	var parse toml.ParseError
	if !errors.As(err, &parse) {
		return err
	}
	key := parse.LastKey
	if slices.ContainsFunc([]string{"auth_token", "headers", "env", "args"}, func(s string) bool { return strings.Contains(key, s) }) {
		return fmt.Errorf("line %d: the value of %q is not valid TOML; write it in double quotes", parse.Position.Line, key)
	}
	if key != "" {
		return fmt.Errorf("line %d, at or after key %q: %s", parse.Position.Line, key, parse.Message)
	}
	return fmt.Errorf("line %d: %s", parse.Position.Line, parse.Message)
}
