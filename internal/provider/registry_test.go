package provider

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lambae/lambae/internal/config"
)

// lookup builds a registry of one entry and returns its provider.
func lookup(t *testing.T, e config.Provider, o Options) Provider {
	t.Helper()
	if e.Name == "" {
		e.Name = "main"
	}
	if e.Model == "" {
		e.Model = "m-1"
	}
	if o.Sleep == nil {
		o.Sleep = func(context.Context, time.Duration) error { t.Error("a sleep nobody expected"); return nil }
	}
	r, err := NewRegistry([]config.Provider{e}, o)
	require.NoError(t, err)
	t.Cleanup(r.Close)
	p, ok := r.Lookup(e.Name)
	require.True(t, ok)
	return p
}

func TestRegistryListsByNameWithTheAddressInEffect(t *testing.T) {
	t.Parallel()
	r, err := NewRegistry([]config.Provider{
		{Name: "z", Kind: "openai", Model: "m1", MaxTokens: 7},
		{Name: "a", Kind: "anthropic", Model: "m2"},
		{Name: "own", Kind: "anthropic", Model: "m3", BaseURL: "https://gateway.example.com/x/"},
		{Name: "e", Kind: "echo", Model: "echo", BaseURL: "https://ignored.example.com"},
		{Name: "b", Kind: "bedrock", Model: "m4"},
	}, Options{Region: "eu-west-1"})
	require.NoError(t, err)
	require.Equal(t, []Info{
		{Name: "a", Kind: "anthropic", Model: "m2", BaseURL: "https://api.anthropic.com", MaxTokens: 4096},
		{Name: "b", Kind: "bedrock", Model: "m4", BaseURL: "https://bedrock-runtime.eu-west-1.amazonaws.com", MaxTokens: 4096},
		{Name: "e", Kind: "echo", Model: "echo", MaxTokens: 4096},
		{Name: "own", Kind: "anthropic", Model: "m3", BaseURL: "https://gateway.example.com/x/", MaxTokens: 4096},
		{Name: "z", Kind: "openai", Model: "m1", BaseURL: "https://api.openai.com", MaxTokens: 7},
	}, r.List())

	for _, info := range r.List() {
		p, ok := r.Lookup(info.Name)
		require.True(t, ok)
		require.Equal(t, info, p.Info())
		again, _ := r.Lookup(info.Name)
		require.Same(t, p, again)
	}
	_, ok := r.Lookup("gone")
	require.False(t, ok)
}

func TestRegistryRefusesWhatALoadedFileCannotHold(t *testing.T) {
	t.Parallel()
	_, err := NewRegistry([]config.Provider{{Name: "a", Kind: "x"}}, Options{})
	require.EqualError(t, err, `provider "a": unknown kind "x"`)
	_, err = NewRegistry([]config.Provider{{Name: "a", Kind: "echo"}, {Name: "a", Kind: "echo"}}, Options{})
	require.EqualError(t, err, `provider "a": the name is used twice`)
}
