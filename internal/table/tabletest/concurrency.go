package tabletest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
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
	{"rewrites that are guarded by versions lose nothing", func(t *testing.T, s store) {
		RewriteConcurrently(t, []table.Table{s}, 8, 5)
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

// AppendConcurrently lets writers append to one log, chunk n+1 if absent, each
// through one of the tables, and checks the log: its numbers are dense, and
// every acknowledged chunk is there once, in its writer's order.
//
// An [table.ErrCondition] is taken at its word. After another error the writer
// looks whether the chunk is its own.
func AppendConcurrently(t *testing.T, tables []table.Table, writers, each int) {
	t.Helper()
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			a := appender{t: t, store: store{tables[w%len(tables)]}}
			for i := 0; i < each && !t.Failed(); i++ {
				a.append(fmt.Sprintf("%d/%d", w, i))
			}
		})
	}
	wg.Wait()
	require.False(t, t.Failed())

	next := make([]int, writers)
	log := store{tables[0]}.query(t, table.Range{PK: logPK})
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

const logPK = "S#log"

// An appender is one writer of the log.
type appender struct {
	t     *testing.T
	store store
	n     int // where the log is believed to end
}

// append returns when the body is in the log, or the test has failed.
func (a *appender) append(body string) {
	unknown := false // an earlier put of this chunk may have landed
	for losses := 0; !a.t.Failed(); {
		start := time.Now()
		_, err := a.store.Put(a.t.Context(), table.Op{Key: chunkKey(a.n), Body: []byte(body), If: table.IfAbsent()})
		took := time.Since(start)
		lost := errors.Is(err, table.ErrCondition)
		unknown = unknown || err != nil && !lost
		if unknown {
			got, err := a.store.Get(a.t.Context(), chunkKey(a.n))
			if err != nil || !got[0].Exists() {
				continue
			}
			lost = string(got[0].Body) != body
		}
		if !lost {
			a.n++
			return
		}
		unknown = false
		// All start at once; then they spread, the wider the slower the store is.
		losses++
		time.Sleep(rand.N(min(took<<min(losses, 5), 2*time.Second)))
		a.findEnd()
	}
}

func (a *appender) findEnd() {
	for it, err := range a.store.Query(a.t.Context(), table.Range{PK: logPK, Reverse: true, Limit: 1}) {
		if assert.NoError(a.t, err) {
			_, err = fmt.Sscanf(it.SK, "L#%d", &a.n)
			assert.NoError(a.t, err)
			a.n++
		}
	}
}

func chunkKey(n int) table.Key { return key(logPK, fmt.Sprintf("L#%012d", n)) }

// RewriteConcurrently lets writers add words to one item under its version,
// each through one of the tables, and checks that every word is there once.
func RewriteConcurrently(t *testing.T, tables []table.Table, writers, each int) {
	t.Helper()
	k := key("p", "words")
	store{tables[0]}.put(t, k, "", table.IfAbsent())
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := 0; i < each && !t.Failed(); i++ {
				addWord(t, store{tables[w%len(tables)]}, k, fmt.Sprintf("%d/%d", w, i))
			}
		})
	}
	wg.Wait()
	require.False(t, t.Failed())
	words := strings.Fields(string(store{tables[0]}.get(t, k).Body))
	require.Len(t, words, writers*each)
	slices.Sort(words)
	require.Len(t, slices.Compact(words), writers*each, "a word is there twice")
}

// addWord takes an [table.ErrCondition] at its word: it adds again without
// looking whether the word is there. After another error it looks.
func addWord(t *testing.T, s store, k table.Key, word string) {
	unknown := false
	for !t.Failed() {
		got, err := s.Get(t.Context(), k)
		if err != nil {
			continue
		}
		words := string(got[0].Body)
		if unknown && slices.Contains(strings.Fields(words), word) {
			return
		}
		_, err = s.Put(t.Context(), table.Op{Key: k, Body: []byte(words + " " + word), If: table.IfVersion(got[0].Version)})
		if err == nil {
			return
		}
		unknown = unknown || !errors.Is(err, table.ErrCondition)
	}
}
