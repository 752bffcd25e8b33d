// Package storetest holds the contract that every session store must pass.
// Check your own in one line:
//
//	func TestMyStore(t *testing.T) {
//		storetest.Run(t, func(t *testing.T) claude.SessionStore { return mystore.New() })
//	}
package storetest

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/lambae/lambae/sdk/claude"
	"github.com/stretchr/testify/require"
)

// Run checks a store against the contract. Open returns a store for one check;
// stores may share what is behind them, since every check uses project keys of
// its own. Checks of optional interfaces are skipped for stores without them.
func Run(t *testing.T, open func(t *testing.T) claude.SessionStore) {
	for _, c := range checks {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.check(t, &subject{SessionStore: open(t), project: fmt.Sprintf("-project-%d", time.Now().UnixNano())})
		})
	}
}

var checks = []struct {
	name  string
	check func(t *testing.T, s *subject)
}{
	{"append then load gives the same entries in order", appendThenLoad},
	{"load of an unknown key is nil and no error", loadUnknown},
	{"order holds across appends", orderAcrossAppends},
	{"an empty append does nothing", emptyAppend},
	{"subpaths are separate", subpathsSeparate},
	{"projects are separate", projectsSeparate},
	{"list gives ids and times without subpath-only sessions", list},
	{"delete of a session takes its subpaths along", deleteCascades},
	{"delete of a subpath takes only it", deleteSubpath},
	{"delete of an unknown key is fine", deleteUnknown},
	{"subkeys do not hold the session itself", subkeys},
	{"summaries are the fold of the session's own entries", summaries},
	{"entries with a known uuid are not stored twice", uuids},
	{"concurrent writers lose nothing", concurrentWriters},
}

// subject is a store under test.
type subject struct {
	claude.SessionStore
	project string
}

func (s *subject) key(session string, subpath ...string) claude.SessionKey {
	key := claude.SessionKey{ProjectKey: s.project, SessionID: session}
	if len(subpath) > 0 {
		key.Subpath = subpath[0]
	}
	return key
}

func (s *subject) append(t *testing.T, key claude.SessionKey, entries ...string) {
	t.Helper()
	raw := make([]claude.Entry, len(entries))
	for i, e := range entries {
		raw[i] = claude.Entry(e)
	}
	require.NoError(t, s.Append(t.Context(), key, raw))
}

func (s *subject) requireEntries(t *testing.T, key claude.SessionKey, want ...string) {
	t.Helper()
	got, err := s.Load(t.Context(), key)
	require.NoError(t, err)
	require.Len(t, got, len(want))
	for i := range want {
		require.JSONEq(t, want[i], string(got[i]), "entry %d of %s", i, key)
	}
}

func (s *subject) requireUnknown(t *testing.T, key claude.SessionKey) {
	t.Helper()
	got, err := s.Load(t.Context(), key)
	require.NoError(t, err)
	require.Nil(t, got)
}

// optional returns the store's optional interface T, or skips the check.
func optional[T any](t *testing.T, s *subject) T {
	t.Helper()
	v, ok := s.SessionStore.(T)
	if !ok {
		t.Skipf("%T does not implement %T", s.SessionStore, (*T)(nil))
	}
	return v
}

func appendThenLoad(t *testing.T, s *subject) {
	entries := []string{
		`{"type":"user","uuid":"a","message":{"role":"user","content":"hello"}}`,
		`{"type":"assistant","uuid":"b","nested":{"deep":[1,2.5,{"x":null}]},"unicode":"é 日本 🎉 \u2028"}`,
		`{"type":"title","text":"without a uuid"}`,
		`42`, `"a string"`, `null`, `[1,2]`,
	}
	s.append(t, s.key("s"), entries...)
	s.requireEntries(t, s.key("s"), entries...)
}

func loadUnknown(t *testing.T, s *subject) {
	s.requireUnknown(t, s.key("nothing"))
	s.requireUnknown(t, s.key("nothing", "subagents/agent-a"))
}

func orderAcrossAppends(t *testing.T, s *subject) {
	var want []string
	for i := range 30 {
		e := fmt.Sprintf(`{"type":"x","n":%d}`, i)
		want = append(want, e)
		s.append(t, s.key("s"), e)
	}
	s.requireEntries(t, s.key("s"), want...)
}

func emptyAppend(t *testing.T, s *subject) {
	s.append(t, s.key("s"))
	s.requireUnknown(t, s.key("s"))
	s.append(t, s.key("s"), `{"type":"x"}`)
	s.append(t, s.key("s"))
	s.requireEntries(t, s.key("s"), `{"type":"x"}`)
}

func subpathsSeparate(t *testing.T, s *subject) {
	s.append(t, s.key("s"), `{"of":"main"}`)
	for _, subpath := range []string{"subagents/agent-a", "subagents/agent-a/deeper", "subagents/agent", "odd #%\\ name/é"} {
		s.append(t, s.key("s", subpath), `{"of":`+quote(subpath)+`}`)
	}
	s.requireEntries(t, s.key("s"), `{"of":"main"}`)
	for _, subpath := range []string{"subagents/agent-a", "subagents/agent-a/deeper", "subagents/agent", "odd #%\\ name/é"} {
		s.requireEntries(t, s.key("s", subpath), `{"of":`+quote(subpath)+`}`)
	}
}

func quote(s string) string {
	b, _ := json.Marshal(s)
	return string(b)
}

func projectsSeparate(t *testing.T, s *subject) {
	other := &subject{SessionStore: s.SessionStore, project: s.project + "-other"}
	s.append(t, s.key("s"), `{"in":"one"}`)
	other.append(t, other.key("s"), `{"in":"other"}`)
	s.requireEntries(t, s.key("s"), `{"in":"one"}`)
	other.requireEntries(t, other.key("s"), `{"in":"other"}`)
}

func list(t *testing.T, s *subject) {
	lister := optional[claude.SessionLister](t, s)
	before := time.Now().Add(-time.Minute).UnixMilli()
	s.append(t, s.key("one"), `{"type":"x"}`)
	s.append(t, s.key("two"), `{"type":"x"}`)
	s.append(t, s.key("three", "subagents/agent-a"), `{"type":"x"}`)
	stamps, err := lister.ListSessions(t.Context(), s.project)
	require.NoError(t, err)
	var ids []string
	for _, stamp := range stamps {
		ids = append(ids, stamp.SessionID)
		require.Greater(t, stamp.MTime, before, "milliseconds since 1970")
		require.Less(t, stamp.MTime, time.Now().Add(time.Minute).UnixMilli(), "milliseconds since 1970")
	}
	slices.Sort(ids)
	require.Equal(t, []string{"one", "two"}, ids)
	stamps, err = lister.ListSessions(t.Context(), s.project+"-unknown")
	require.NoError(t, err)
	require.Empty(t, stamps)
}

func deleteCascades(t *testing.T, s *subject) {
	deleter := optional[claude.SessionDeleter](t, s)
	s.append(t, s.key("gone"), `{"type":"x","uuid":"a"}`)
	s.append(t, s.key("gone", "subagents/agent-a"), `{"type":"x"}`)
	s.append(t, s.key("gone", "subagents/w/agent-b"), `{"type":"x"}`)
	s.append(t, s.key("kept"), `{"type":"x"}`)
	require.NoError(t, deleter.DeleteSession(t.Context(), s.key("gone")))
	s.requireUnknown(t, s.key("gone"))
	s.requireUnknown(t, s.key("gone", "subagents/agent-a"))
	s.requireUnknown(t, s.key("gone", "subagents/w/agent-b"))
	s.requireEntries(t, s.key("kept"), `{"type":"x"}`)
	if lister, ok := s.SessionStore.(claude.SessionLister); ok {
		stamps, err := lister.ListSessions(t.Context(), s.project)
		require.NoError(t, err)
		require.Len(t, stamps, 1)
	}
	// What is deleted is forgotten: the same uuid can come again.
	s.append(t, s.key("gone"), `{"type":"x","uuid":"a"}`)
	s.requireEntries(t, s.key("gone"), `{"type":"x","uuid":"a"}`)
}

func deleteSubpath(t *testing.T, s *subject) {
	deleter := optional[claude.SessionDeleter](t, s)
	s.append(t, s.key("s"), `{"of":"main"}`)
	s.append(t, s.key("s", "subagents/agent-a"), `{"of":"a"}`)
	s.append(t, s.key("s", "subagents/agent-ab"), `{"of":"ab"}`)
	require.NoError(t, deleter.DeleteSession(t.Context(), s.key("s", "subagents/agent-a")))
	s.requireUnknown(t, s.key("s", "subagents/agent-a"))
	s.requireEntries(t, s.key("s"), `{"of":"main"}`)
	s.requireEntries(t, s.key("s", "subagents/agent-ab"), `{"of":"ab"}`)
}

func deleteUnknown(t *testing.T, s *subject) {
	deleter := optional[claude.SessionDeleter](t, s)
	require.NoError(t, deleter.DeleteSession(t.Context(), s.key("never")))
	require.NoError(t, deleter.DeleteSession(t.Context(), s.key("never", "subagents/agent-a")))
}

func subkeys(t *testing.T, s *subject) {
	lister := optional[claude.SubkeyLister](t, s)
	s.append(t, s.key("s"), `{"type":"x"}`)
	subpaths, err := lister.ListSubkeys(t.Context(), s.project, "s")
	require.NoError(t, err)
	require.Empty(t, subpaths)
	s.append(t, s.key("s", "subagents/agent-a"), `{"type":"x"}`)
	s.append(t, s.key("s", "subagents/w/agent-b"), `{"type":"x"}`)
	s.append(t, s.key("s2", "subagents/agent-c"), `{"type":"x"}`)
	subpaths, err = lister.ListSubkeys(t.Context(), s.project, "s")
	require.NoError(t, err)
	slices.Sort(subpaths)
	require.Equal(t, []string{"subagents/agent-a", "subagents/w/agent-b"}, subpaths)
}

func summaries(t *testing.T, s *subject) {
	lister := optional[claude.SummaryLister](t, s)
	entries := []string{
		`{"type":"user","uuid":"a","cwd":"/w","timestamp":"2026-01-02T03:04:05.000Z","message":{"content":"first"}}`,
		`{"type":"tag","tag":"red"}`,
		`{"type":"custom-title","customTitle":"Title"}`,
	}
	for _, e := range entries {
		s.append(t, s.key("s"), e)
	}
	s.append(t, s.key("s"), entries[0]) // known: changes nothing
	s.append(t, s.key("s", "subagents/agent-a"), `{"type":"custom-title","customTitle":"not this"}`)
	got, err := lister.ListSessionSummaries(t.Context(), s.project)
	require.NoError(t, err)
	require.Len(t, got, 1)
	var raw []claude.Entry
	for _, e := range entries {
		raw = append(raw, claude.Entry(e))
	}
	want := claude.FoldSessionSummary(nil, s.key("s"), raw, got[0].MTime)
	require.JSONEq(t, string(want.Data), string(got[0].Data))
	require.Equal(t, "s", got[0].SessionID)
	stamps, err := optional[claude.SessionLister](t, s).ListSessions(t.Context(), s.project)
	require.NoError(t, err)
	require.Equal(t, stamps[0].MTime, got[0].MTime, "summaries and list share a clock")
}

func uuids(t *testing.T, s *subject) {
	s.append(t, s.key("s"), `{"uuid":"a","n":1}`, `{"n":0}`, `{"uuid":"a","n":2}`)
	s.append(t, s.key("s"), `{"uuid":"b"}`, `{"uuid":"a","n":3}`, `{"n":0}`)
	s.append(t, s.key("s"), `{"uuid":"a","n":1}`)
	s.append(t, s.key("s", "subagents/agent-a"), `{"uuid":"a"}`)
	s.requireEntries(t, s.key("s"), `{"uuid":"a","n":1}`, `{"n":0}`, `{"uuid":"b"}`, `{"n":0}`)
	s.requireEntries(t, s.key("s", "subagents/agent-a"), `{"uuid":"a"}`)
}

func concurrentWriters(t *testing.T, s *subject) {
	const writers, each = 32, 6
	key := s.key("s")
	var wait sync.WaitGroup
	errs := make(chan error, writers)
	for w := range writers {
		wait.Go(func() {
			for n := range each {
				entries := []claude.Entry{
					claude.Entry(fmt.Sprintf(`{"type":"x","uuid":"%d-%d","w":%d,"n":%d}`, w, n, w, n)),
					claude.Entry(fmt.Sprintf(`{"type":"tag","tag":"t","uuid":"shared-%d"}`, n)),
				}
				if err := s.Append(context.WithoutCancel(t.Context()), key, entries); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	wait.Wait()
	close(errs)
	for err := range errs {
		require.NoError(t, err)
	}
	entries, err := s.Load(t.Context(), key)
	require.NoError(t, err)
	require.Len(t, entries, writers*each+each, "every entry once")
	next := make(map[int]int)
	for _, e := range entries {
		var v struct {
			Type string
			W, N int
		}
		require.NoError(t, json.Unmarshal(e, &v))
		if v.Type == "x" {
			require.Equal(t, next[v.W], v.N, "entries of writer %d are in order", v.W)
			next[v.W]++
		}
	}
	if lister, ok := s.SessionStore.(claude.SummaryLister); ok {
		got, err := lister.ListSessionSummaries(t.Context(), s.project)
		require.NoError(t, err)
		require.JSONEq(t, string(claude.FoldSessionSummary(nil, key, entries, 0).Data), string(got[0].Data))
	}
}
