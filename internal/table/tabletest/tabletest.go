// Package tabletest is the one test suite of the storage contract. Every driver
// passes it, so that what is built on package table needs to be tested on one
// of them only.
package tabletest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lambae/lambae/internal/table"
)

// Run checks a driver against the contract of [table.Table]. The tables that
// open returns are empty, and each test closes its own.
func Run(t *testing.T, open func(t *testing.T) table.Table) {
	t.Helper()
	groups := []struct {
		name  string
		tests []test
	}{
		{"conditions", conditions},
		{"items", items},
		{"ranges", ranges},
		{"atomic writes", atomicWrites},
		{"limits", limits},
		{"concurrency", concurrency},
		{"model", model},
		{"closing", closing},
	}
	for _, g := range groups {
		t.Run(g.name, func(t *testing.T) {
			t.Parallel()
			for _, tt := range g.tests {
				t.Run(tt.claim, func(t *testing.T) {
					t.Parallel()
					tbl := open(t)
					t.Cleanup(func() { require.NoError(t, tbl.Close()) })
					tt.run(t, store{tbl})
				})
			}
		})
	}
}

type test struct {
	claim string
	run   func(t *testing.T, s store)
}

// A fataler is what both [testing.T] and a rapid check offer.
type fataler interface {
	require.TestingT
	Helper()
	Logf(format string, args ...any)
	Context() context.Context
}

// A store is a table with calls that end the test on an error.
type store struct{ table.Table }

func (s store) put(t fataler, k table.Key, body string, c table.Condition) int64 {
	t.Helper()
	v, err := s.Put(t.Context(), table.Op{Key: k, Body: []byte(body), If: c})
	require.NoError(t, err)
	require.NotZero(t, v, "an item that exists has a version")
	return v
}

// fill writes items whose bodies are their sort keys.
func (s store) fill(t fataler, pk string, sks ...string) {
	t.Helper()
	for part := range slices.Chunk(sks, table.MaxWrite) {
		var ops []table.Op
		for _, sk := range part {
			ops = append(ops, table.Op{Key: key(pk, sk), Body: []byte(sk), If: table.IfAbsent()})
		}
		require.NoError(t, s.Write(t.Context(), ops...))
	}
}

// refuses asks again when the answer was lost on a loaded machine: a driver may
// not know then whether the put was carried out, but it must not report success.
func (s store) refuses(t fataler, k table.Key, body string, c table.Condition) {
	t.Helper()
	var err error
	for range 3 {
		_, err = s.Put(t.Context(), table.Op{Key: k, Body: []byte(body), If: c})
		require.Error(t, err)
		if errors.Is(err, table.ErrCondition) {
			return
		}
		t.Logf("asked again: %v", err)
	}
	require.ErrorIs(t, err, table.ErrCondition)
}

func (s store) delete(t fataler, k table.Key, c table.Condition) {
	t.Helper()
	_, err := s.Put(t.Context(), table.Op{Key: k, Delete: true, If: c})
	require.NoError(t, err)
}

func (s store) get(t fataler, k table.Key) table.Item {
	t.Helper()
	got, err := s.Get(t.Context(), k)
	require.NoError(t, err)
	require.Len(t, got, 1)
	require.Equal(t, k, got[0].Key)
	return got[0]
}

func (s store) has(t fataler, k table.Key, body string, version int64) {
	t.Helper()
	it := s.get(t, k)
	require.True(t, it.Exists())
	require.Equal(t, body, string(it.Body))
	require.Equal(t, version, it.Version)
}

func (s store) hasNot(t fataler, k table.Key) {
	t.Helper()
	require.Equal(t, table.Item{Key: k}, s.get(t, k))
}

func (s store) query(t fataler, r table.Range) []table.Item {
	t.Helper()
	var out []table.Item
	for it, err := range s.Query(t.Context(), r) {
		require.NoError(t, err)
		require.True(t, it.Exists())
		require.Equal(t, r.PK, it.PK)
		out = append(out, it)
	}
	return out
}

// sks queries, and returns the sort keys only.
func (s store) sks(t fataler, r table.Range) []string {
	t.Helper()
	out := []string{}
	for _, it := range s.query(t, r) {
		out = append(out, it.SK)
	}
	return out
}

func key(pk, sk string) table.Key { return table.Key{PK: pk, SK: sk} }

// numbered returns n sort keys in their order.
func numbered(n int) []string {
	sks := make([]string, n)
	for i := range sks {
		sks[i] = fmt.Sprintf("k%04d", i)
	}
	return sks
}
