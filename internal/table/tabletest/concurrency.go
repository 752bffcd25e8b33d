package tabletest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lambae/lambae/internal/table"
)

var concurrency = []test{
	{"of a hundred appenders to one log none loses a chunk, repeats one, or leaves a gap", func(t *testing.T, s store) {
		AppendConcurrently(t, []table.Table{s}, 100, 1)
	}},
	{"a few appenders with many chunks each keep their own order", func(t *testing.T, s store) {
		AppendConcurrently(t, []table.Table{s}, 4, 25)
	}},
	{"counters that are guarded by versions lose no increment", func(t *testing.T, s store) {
		const workers, each = 8, 5
		k := key("p", "counter")
		s.put(t, k, "0", table.IfAbsent())
		var wg sync.WaitGroup
		for range workers {
			wg.Go(func() {
				for done := 0; done < each && !t.Failed(); {
					if increment(t, s, k) {
						done++
					}
				}
			})
		}
		wg.Wait()
		require.Equal(t, strconv.Itoa(workers*each), string(s.get(t, k).Body))
	}},
	{"readers only ever see what some writer wrote whole", func(t *testing.T, s store) {
		const rounds = 40
		k := key("p", "a")
		bodies := map[string]bool{}
		for i := range rounds {
			bodies[fmt.Sprintf("%01000d", i)] = true
		}
		s.put(t, k, fmt.Sprintf("%01000d", 0), table.IfAbsent())
		var wg sync.WaitGroup
		wg.Go(func() {
			for i := range rounds {
				_, err := s.Put(t.Context(), table.Op{Key: k, Body: fmt.Appendf(nil, "%01000d", i)})
				assert.NoError(t, err)
			}
		})
		for range 2 {
			wg.Go(func() {
				for range rounds {
					got, err := s.Get(t.Context(), k)
					if assert.NoError(t, err) {
						assert.True(t, bodies[string(got[0].Body)], "read %.20q…", got[0].Body)
					}
				}
			})
		}
		wg.Wait()
	}},
}

// increment adds one to a counter; false means that somebody was faster.
func increment(t *testing.T, s store, k table.Key) bool {
	got, err := s.Get(t.Context(), k)
	if !assert.NoError(t, err) {
		return false
	}
	n, err := strconv.Atoi(string(got[0].Body))
	assert.NoError(t, err)
	_, err = s.Put(t.Context(), table.Op{Key: k, Body: []byte(strconv.Itoa(n + 1)), If: table.IfVersion(got[0].Version)})
	if errors.Is(err, table.ErrCondition) {
		return false
	}
	return assert.NoError(t, err)
}

// AppendConcurrently lets writers append to one log, chunk n+1 if absent, each
// through one of the tables, and checks the log: its numbers are dense, and
// every acknowledged chunk is there once, in its writer's order.
//
// A put may also fail with an error that leaves its outcome unknown. Then, as
// package session does, the writer reads the chunk to see whose it is.
func AppendConcurrently(t *testing.T, tables []table.Table, writers, each int) {
	t.Helper()
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			appendAll(t, store{tables[w%len(tables)]}, w, each)
		})
	}
	wg.Wait()
	require.False(t, t.Failed())

	next := make([]int, writers)
	log := store{tables[0]}.query(t, table.Range{PK: "S#log"})
	require.Len(t, log, writers*each)
	for n, it := range log {
		require.Equal(t, chunkKey(n), it.Key, "the log has a gap or a chunk twice")
		var w, i int
		_, err := fmt.Sscanf(string(it.Body), "%d/%d", &w, &i)
		require.NoError(t, err)
		require.Equal(t, next[w], i, "writer %d's chunks are out of order", w)
		next[w]++
	}
}

func appendAll(t *testing.T, s store, writer, each int) {
	n, losses := 0, 0
	for i := 0; i < each && !t.Failed(); {
		body := fmt.Sprintf("%d/%d", writer, i)
		_, err := s.Put(t.Context(), table.Op{Key: chunkKey(n), Body: []byte(body), If: table.IfAbsent()})
		if err != nil && !errors.Is(err, table.ErrCondition) {
			got, readErr := s.Get(t.Context(), chunkKey(n))
			switch {
			case readErr != nil, !got[0].Exists():
				continue // ask again, with the same chunk
			case string(got[0].Body) == body:
				err = nil
			}
		}
		if err == nil {
			i++
			n++
			losses = 0
			continue
		}
		// All start at once; then they spread, for the sake of slow stores.
		losses++
		time.Sleep(rand.N(time.Millisecond << min(losses, 8)))
		for it, err := range s.Query(t.Context(), table.Range{PK: "S#log", Reverse: true, Limit: 1}) {
			if assert.NoError(t, err) {
				_, err = fmt.Sscanf(it.SK, "L#%d", &n)
				assert.NoError(t, err)
				n++
			}
		}
	}
}

func chunkKey(n int) table.Key { return key("S#log", fmt.Sprintf("L#%012d", n)) }

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
