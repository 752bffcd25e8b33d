package provider

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lambae/lambae/internal/config"
)

// Options are what a [Registry] needs of its surroundings. The zero Options
// serve literal tokens and every kind but bedrock.
type Options struct {
	// Resolve replaces the references in a token at the moment of use, as
	// config.Resolver does. nil takes tokens as they are.
	Resolve func(ctx context.Context, s string) (string, error)
	// Bedrock builds the client of a bedrock entry on its first call, and again
	// after that failed. BaseURL is the entry's, "" for the region's own. nil
	// makes those calls fail: package provider/bedrock has the constructor, apart
	// so that binaries without it do not link the AWS SDK.
	Bedrock func(ctx context.Context, baseURL string) (BedrockClient, error)
	// Region completes the address bedrock entries show, as AWS_REGION has it.
	Region string

	// Wrap stands between the providers and the network, to carry traces on; nil
	// for nothing in between.
	Wrap func(http.RoundTripper) http.RoundTripper

	HTTPClient *http.Client                               // nil: one made for this, see newHTTPClient
	Now        func() time.Time                           // nil: time.Now
	Sleep      func(context.Context, time.Duration) error // nil: the real clock
	Random     func() float64                             // nil: math/rand
}

func (o Options) withDefaults() Options {
	if o.Resolve == nil {
		o.Resolve = func(_ context.Context, s string) (string, error) { return s, nil }
	}
	if o.HTTPClient == nil {
		o.HTTPClient = newHTTPClient()
		if o.Wrap != nil {
			o.HTTPClient.Transport = o.Wrap(o.HTTPClient.Transport)
		}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Sleep == nil {
		o.Sleep = sleep
	}
	if o.Random == nil {
		o.Random = rand.Float64
	}
	return o
}

func (o Options) retrier() retrier { return retrier{o.Sleep, o.Random, o.Now} }

// Registry holds the providers of a configuration by name. It is safe for
// concurrent use.
type Registry struct {
	infos  []Info
	byName map[string]func() Provider // built on first use
	client *http.Client
}

// NewRegistry returns a registry of the entries, as config.Load checked them. An
// unknown kind or a repeated name is an error.
func NewRegistry(entries []config.Provider, o Options) (*Registry, error) {
	o = o.withDefaults()
	r := &Registry{byName: make(map[string]func() Provider, len(entries)), client: o.HTTPClient}
	for _, e := range entries {
		info := Info{Name: e.Name, Kind: e.Kind, Model: e.Model, BaseURL: e.BaseURL, MaxTokens: e.MaxTokens}
		build, host := kind(e.Kind, o)
		if build == nil {
			return nil, fmt.Errorf("provider %q: unknown kind %q", e.Name, e.Kind)
		}
		if _, taken := r.byName[e.Name]; taken {
			return nil, fmt.Errorf("provider %q: the name is used twice", e.Name)
		}
		if info.BaseURL == "" || e.Kind == config.KindEcho {
			info.BaseURL = host
		}
		if info.MaxTokens == 0 {
			info.MaxTokens = config.DefaultMaxTokens
		}
		r.infos = append(r.infos, info)
		r.byName[e.Name] = sync.OnceValue(func() Provider { return build(e, info, o) })
	}
	slices.SortFunc(r.infos, func(a, b Info) int { return strings.Compare(a.Name, b.Name) })
	return r, nil
}

// kind returns the constructor of a kind and the address it has of its own.
func kind(name string, o Options) (build func(config.Provider, Info, Options) Provider, host string) {
	switch name {
	case config.KindAnthropic:
		return newAnthropic, anthropicHost
	case config.KindOpenAI:
		return newOpenAI, openAIHost
	case config.KindBedrock:
		return newBedrock, bedrockHost(o.Region)
	case config.KindEcho:
		return newEcho, ""
	}
	return nil, ""
}

// Lookup returns the provider of that name.
func (r *Registry) Lookup(name string) (Provider, bool) {
	build, ok := r.byName[name]
	if !ok {
		return nil, false
	}
	return build(), true
}

// List returns what may be told of every provider, sorted by name.
func (r *Registry) List() []Info { return slices.Clone(r.infos) }

// Close drops the connections that are kept for the next call. Calls that are
// under way, or come later, still work.
func (r *Registry) Close() { r.client.CloseIdleConnections() }
