package config

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

type clock struct{ nanos atomic.Int64 }

func (c *clock) now() time.Time          { return time.Unix(0, c.nanos.Load()) }
func (c *clock) advance(d time.Duration) { c.nanos.Add(int64(d)) }

func fixed(values map[string]string) Source {
	return func(_ context.Context, id string) (string, error) {
		if v, ok := values[id]; ok {
			return v, nil
		}
		return "", errors.New("no such secret")
	}
}

func TestResolve(t *testing.T) {
	t.Parallel()
	r := NewResolver(ResolverOptions{
		Lookup:         lookup(map[string]string{"A": "alpha", "B": "${A}", "E": ""}),
		SecretsManager: fixed(map[string]string{"prod/key": "s3", "json": `{"k":"v","n":12.50,"t":true,"o":{},"z":null}`}),
		SSM:            fixed(map[string]string{"/x/y": "param"}),
	})
	for in, want := range map[string]string{
		"":                           "",
		"plain":                      "plain",
		"$A $ $$":                    "$A $ $$",
		"Bearer ${A}":                "Bearer alpha",
		"${A}${A}-${E}":              "alphaalpha-",
		"$${A}":                      "$alpha",
		"${B}":                       "${A}",
		"${secretsmanager:prod/key}": "s3",
		"${secretsmanager:json#k}":   "v",
		"${secretsmanager:json#n}":   "12.50",
		"${secretsmanager:json#t}":   "true",
		"<${ssm:/x/y}>":              "<param>",
		"}${A}{":                     "}alpha{",
	} {
		got, err := r.Resolve(t.Context(), in)
		require.NoError(t, err, in)
		require.Equal(t, want, got, in)
	}
	for in, want := range map[string]string{
		"${NOPE}":                      "environment variable NOPE is not set",
		"${A":                          "unterminated ${A",
		"x ${A and more":               "unterminated ${A:",
		"${}":                          "empty reference",
		"${vault:x}":                   "unknown reference ${vault:x}",
		"${secretsmanager:gone}":       "${secretsmanager:gone}: no such secret",
		"${secretsmanager:json#gone}":  `has no member "gone"`,
		"${secretsmanager:json#o}":     "is not a string",
		"${secretsmanager:json#z}":     "is not a string",
		"${secretsmanager:prod/key#k}": "not a JSON object",
	} {
		_, err := r.Resolve(t.Context(), in)
		require.ErrorContains(t, err, want, in)
		require.NotContains(t, err.Error(), "s3")
		require.NotContains(t, err.Error(), "alpha")
	}
}

func TestResolveWithoutSecretStoresSaysSo(t *testing.T) {
	t.Parallel()
	r := NewResolver(ResolverOptions{Lookup: lookup(nil)})
	for _, ref := range []string{"${ssm:/x}", "${secretsmanager:x}"} {
		_, err := r.Resolve(t.Context(), ref)
		require.ErrorContains(t, err, ref+": this process has no access to")
	}
}

func TestSecretsAreKeptForFiveMinutesAndFailuresAreNot(t *testing.T) {
	t.Parallel()
	var c clock
	var calls int
	var fail error
	r := NewResolver(ResolverOptions{Lookup: lookup(nil), Now: c.now, SSM: func(context.Context, string) (string, error) {
		calls++
		return "v", fail
	}})
	resolve := func() error { _, err := r.Resolve(t.Context(), "${ssm:/a}"); return err }

	fail = errors.New("down")
	require.ErrorContains(t, resolve(), "down")
	fail = nil
	require.NoError(t, resolve())
	require.Equal(t, 2, calls, "a failure is asked for again")
	c.advance(5*time.Minute - 1)
	require.NoError(t, resolve())
	require.Equal(t, 2, calls)
	c.advance(1)
	require.NoError(t, resolve())
	require.Equal(t, 3, calls)
}

func TestMembersOfOneSecretShareItsFetch(t *testing.T) {
	t.Parallel()
	var calls atomic.Int32
	r := NewResolver(ResolverOptions{Lookup: lookup(nil), SecretsManager: func(context.Context, string) (string, error) {
		calls.Add(1)
		return `{"a":"1","b":"2"}`, nil
	}})
	got, err := r.Resolve(t.Context(), "${secretsmanager:s#a}${secretsmanager:s#b}")
	require.NoError(t, err)
	require.Equal(t, "12", got)
	require.EqualValues(t, 1, calls.Load())
}

func TestCallersShareAFetchAndObeyTheirOwnContext(t *testing.T) {
	t.Parallel()
	var calls atomic.Int32
	entered, release := make(chan struct{}), make(chan struct{})
	r := NewResolver(ResolverOptions{Lookup: lookup(nil), SSM: func(ctx context.Context, _ string) (string, error) {
		if calls.Add(1) == 1 {
			close(entered)
		}
		select {
		case <-release:
			return "v", nil
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}})

	first, giveUp := context.WithCancel(t.Context())
	firstDone := make(chan error)
	go func() { _, err := r.Resolve(first, "${ssm:/a}"); firstDone <- err }()
	<-entered
	giveUp()
	require.ErrorIs(t, <-firstDone, context.Canceled)

	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			got, err := r.Resolve(t.Context(), "${ssm:/a}")
			require.NoError(t, err)
			require.Equal(t, "v", got)
		})
	}
	close(release)
	wg.Wait()
	require.EqualValues(t, 1, calls.Load(), "the fetch outlived the caller that started it")
}

func TestTextWithoutReferencesIsLiteral(t *testing.T) {
	t.Parallel()
	r := NewResolver(ResolverOptions{Lookup: lookup(map[string]string{"V": "value"})})
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.String().Draw(t, "s")
		s = strings.ReplaceAll(s, "${", "$")
		before := strings.TrimRight(s, "$")
		got, err := r.Resolve(context.Background(), before+"${V}"+s)
		require.NoError(t, err)
		require.Equal(t, before+"value"+s, got)
	})
}
