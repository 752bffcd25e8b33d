package config

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
)

const (
	secretTTL     = 5 * time.Minute
	secretTimeout = 30 * time.Second
)

// Source fetches a secret by its id. Its errors must not hold the value.
type Source func(ctx context.Context, id string) (string, error)

// ResolverOptions are the places a [Resolver] looks. A nil Source refuses
// references of its kind.
type ResolverOptions struct {
	Lookup         func(name string) (string, bool) // the environment, as os.LookupEnv
	SecretsManager Source                           // ${secretsmanager:ID}
	SSM            Source                           // ${ssm:/path}
	Now            func() time.Time                 // nil: time.Now
}

// Resolver replaces references in strings of the configuration at the moment of
// use. Values of the two secret stores are kept for five minutes in memory, and
// callers that want one at the same time share a fetch. It is safe for
// concurrent use.
type Resolver struct {
	lookup  func(string) (string, bool)
	sources map[string]Source
	now     func() time.Time

	fetches singleflight.Group
	mu      sync.Mutex
	cache   map[string]cached
}

type cached struct {
	value string
	until time.Time
}

// NewResolver returns a resolver over the given places.
func NewResolver(o ResolverOptions) *Resolver {
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Resolver{
		lookup:  o.Lookup,
		sources: map[string]Source{"secretsmanager": o.SecretsManager, "ssm": o.SSM},
		now:     o.Now,
		cache:   map[string]cached{},
	}
}

// Resolve returns s with every reference replaced by what it stands for:
//
//	${NAME}                        the environment variable
//	${secretsmanager:ID}           the secret string
//	${secretsmanager:ID#member}    one member of a secret that is a JSON object
//	${ssm:/path}                   the parameter, decrypted
//
// A $ without { is literal, and a value is never scanned for references again.
// Errors name the reference, never a value.
func (r *Resolver) Resolve(ctx context.Context, s string) (string, error) {
	var out strings.Builder
	for {
		before, rest, found := strings.Cut(s, "${")
		out.WriteString(before)
		if !found {
			return out.String(), nil
		}
		ref, after, closed := strings.Cut(rest, "}")
		if !closed {
			return "", fmt.Errorf("unterminated ${%s: add the closing }", name(rest))
		}
		value, err := r.value(ctx, ref)
		if err != nil {
			return "", err
		}
		out.WriteString(value)
		s = after
	}
}

func (r *Resolver) value(ctx context.Context, ref string) (string, error) {
	if ref == "" {
		return "", errors.New("empty reference ${}: name an environment variable in it")
	}
	kind, id, isSecret := strings.Cut(ref, ":")
	if !isSecret {
		value, ok := r.lookup(ref)
		if !ok {
			return "", fmt.Errorf("environment variable %s is not set", ref)
		}
		return value, nil
	}
	source, known := r.sources[kind]
	if !known {
		return "", fmt.Errorf("unknown reference ${%s}: use ${NAME}, ${secretsmanager:ID}, ${secretsmanager:ID#member} or ${ssm:/path}", ref)
	}
	if source == nil {
		return "", fmt.Errorf("${%s}: this process has no access to %s", ref, kind)
	}
	var member string
	if kind == "secretsmanager" {
		id, member, _ = strings.Cut(id, "#")
	}
	value, err := r.secret(ctx, kind, id, source)
	if err == nil && member != "" {
		value, err = memberOf(value, member)
	}
	if err != nil {
		return "", fmt.Errorf("${%s}: %w", ref, err)
	}
	return value, nil
}

// secret answers from the cache, else fetches. The fetch is shared, so it
// outlives the caller that started it; each caller still obeys its own context.
func (r *Resolver) secret(ctx context.Context, kind, id string, source Source) (string, error) {
	key := kind + ":" + id
	if value, ok := r.fresh(key); ok {
		return value, nil
	}
	result := r.fetches.DoChan(key, func() (any, error) {
		if value, ok := r.fresh(key); ok {
			return value, nil
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), secretTimeout)
		defer cancel()
		value, err := source(ctx, id)
		if err != nil {
			return "", err
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.cache[key] = cached{value, r.now().Add(secretTTL)}
		return value, nil
	})
	select {
	case <-ctx.Done():
		return "", context.Cause(ctx)
	case res := <-result:
		return res.Val.(string), res.Err
	}
}

func (r *Resolver) fresh(key string) (string, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c, ok := r.cache[key]
	return c.value, ok && r.now().Before(c.until)
}

// memberOf returns one member of a secret that is a JSON object: strings as they
// are, numbers and booleans as JSON writes them.
func memberOf(secret, member string) (string, error) {
	var object map[string]json.RawMessage
	if err := json.Unmarshal([]byte(secret), &object); err != nil {
		return "", errors.New("the secret is not a JSON object, so it has no members") // err could quote it
	}
	raw, ok := object[member]
	if !ok {
		return "", fmt.Errorf("the secret has no member %q", member)
	}
	switch raw[0] {
	case '"':
		var s string
		err := json.Unmarshal(raw, &s)
		return s, err
	case '{', '[', 'n':
		return "", fmt.Errorf("member %q of the secret is not a string", member)
	}
	return string(raw), nil
}

// name cuts an unterminated reference down to what can be its name: what comes
// after may be part of something secret.
func name(s string) string {
	i := strings.IndexFunc(s, func(c rune) bool {
		return !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune("_:/#.@+=-", c))
	})
	if i >= 0 {
		s = s[:i]
	}
	return s
}
