package tabletest

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lambae/lambae/internal/table"
)

var closing = []test{
	{"a closed table refuses every call", func(t *testing.T, s store) {
		s.put(t, key("p", "a"), "A", table.IfAbsent())
		require.NoError(t, s.Close())
		_, err := s.Put(t.Context(), table.Op{Key: key("p", "b")})
		require.ErrorContains(t, err, "closed")
		_, err = s.Get(t.Context(), key("p", "a"))
		require.ErrorContains(t, err, "closed")
		require.ErrorContains(t, s.Write(t.Context(), table.Op{Key: key("p", "b")}), "closed")
		for _, err := range s.Query(t.Context(), table.Range{PK: "p"}) {
			require.ErrorContains(t, err, "closed")
		}
	}},
	{"closing twice is fine", func(t *testing.T, s store) {
		require.NoError(t, s.Close())
		require.NoError(t, s.Close())
	}},
	{"a write that races with Close is acknowledged or refused, never left waiting", func(t *testing.T, s store) {
		var wg sync.WaitGroup
		for i := range 20 {
			wg.Go(func() {
				for n := 0; ; n++ {
					if _, err := s.Put(t.Context(), table.Op{Key: key("p", fmt.Sprintf("%d-%d", i, n))}); err != nil {
						assert.ErrorContains(t, err, "closed")
						return
					}
				}
			})
		}
		s.put(t, key("p", "a"), "A", table.Condition{})
		require.NoError(t, s.Close())
		wg.Wait()
	}},
}
