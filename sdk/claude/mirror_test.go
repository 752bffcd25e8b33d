package claude

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"
)

// recorder is a store that notes its calls and fails on demand.
type recorder struct {
	mu    sync.Mutex
	calls []appendCall
	fail  func(call int) error
	block time.Duration
}

type appendCall struct {
	key SessionKey
	n   int
}

func (r *recorder) Append(ctx context.Context, key SessionKey, entries []Entry) error {
	r.mu.Lock()
	r.calls = append(r.calls, appendCall{key: key, n: len(entries)})
	call := len(r.calls)
	r.mu.Unlock()
	if r.block > 0 {
		time.Sleep(r.block) // ignores its context, as some stores do
	}
	if r.fail != nil {
		return r.fail(call)
	}
	return nil
}

func (r *recorder) Load(context.Context, SessionKey) ([]Entry, error) { return nil, nil }

func (r *recorder) sizes() []int {
	r.mu.Lock()
	defer r.mu.Unlock()
	var sizes []int
	for _, c := range r.calls {
		sizes = append(sizes, c.n)
	}
	return sizes
}

func mirrorFrame(session string, n, size int) []byte {
	entries := make([]string, n)
	for i := range entries {
		entries[i] = `"` + strings.Repeat("x", max(size-2, 0)) + `"`
	}
	return []byte(fmt.Sprintf(`{"type":"transcript_mirror","filePath":"/c/projects/p/%s.jsonl","entries":[%s]}`,
		session, strings.Join(entries, ",")))
}

// Spec: mirror; eager flush
func TestMirrorBatches(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		eager  bool
		frames [][]byte
		before []int // appends before any flush
		after  []int // appends after it
	}{
		"holds entries until a flush":           {frames: [][]byte{mirrorFrame("a", 2, 10), mirrorFrame("a", 3, 10)}, after: []int{5}},
		"gathers by file":                       {frames: [][]byte{mirrorFrame("a", 1, 9), mirrorFrame("b", 1, 9), mirrorFrame("a", 1, 9)}, after: []int{2, 1}},
		"500 entries are not too many":          {frames: [][]byte{mirrorFrame("a", 500, 5)}, after: []int{500}},
		"501 entries are":                       {frames: [][]byte{mirrorFrame("a", 500, 5), mirrorFrame("a", 1, 5)}, before: []int{501}, after: []int{501}},
		"1,048,576 units are not too many":      {frames: [][]byte{mirrorFrame("a", 1, 1<<20)}, after: []int{1}},
		"one unit more is":                      {frames: [][]byte{mirrorFrame("a", 1, 1<<20+1)}, before: []int{1}, after: []int{1}},
		"a threshold is no bound":               {frames: [][]byte{mirrorFrame("a", 2000, 5)}, before: []int{2000}, after: []int{2000}},
		"eager hands on every frame":            {eager: true, frames: [][]byte{mirrorFrame("a", 2, 5), mirrorFrame("a", 1, 5)}, before: []int{2, 1}, after: []int{2, 1}},
		"frames of other folders are dropped":   {frames: [][]byte{[]byte(`{"filePath":"/d/projects/p/a.jsonl","entries":[1]}`), []byte(`{"filePath":"/c/projects/a.jsonl","entries":[1]}`)}},
		"frames that make no sense are dropped": {frames: [][]byte{[]byte(`{"filePath":5}`), []byte(`{"filePath":"/c/projects/p/a.jsonl","entries":[]}`)}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := &recorder{}
				m := newMirror(r, "/c", tc.eager, func(Message) { t.Error("no failure was expected") })
				for _, f := range tc.frames {
					m.frame(f)
					synctest.Wait()
				}
				require.Equal(t, tc.before, r.sizes())
				m.flush(t.Context())
				require.Equal(t, tc.after, r.sizes())
			})
		})
	}
}

// Spec: mirror
func TestMirrorCountsUTF16Units(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{"abc": 3, "é": 1, "日本": 2, "🎉": 2, "\xff": 1, "": 0} {
		require.Equal(t, want, utf16Len([]byte(text)), "%q", text)
	}
}

// Spec: mirror
func TestMirrorKeysFilesOfSubagents(t *testing.T) {
	t.Parallel()
	key, ok := keyOfFile("/c/projects", "/c/projects/-w/id/subagents/w/agent-a.jsonl")
	require.True(t, ok)
	require.Equal(t, SessionKey{ProjectKey: "-w", SessionID: "id", Subpath: "subagents/w/agent-a"}, key)
}

// Spec: mirror; mirror_error
func TestMirrorRetries(t *testing.T) {
	t.Parallel()
	down := errors.New("store is down")
	for name, tc := range map[string]struct {
		fail    func(call int) error
		block   time.Duration
		calls   int
		took    time.Duration
		message string
	}{
		"a success is not repeated":     {calls: 1},
		"the second try after 200 ms":   {fail: failFirst(1, down), calls: 2, took: 200 * time.Millisecond},
		"the third after 800 ms more":   {fail: failFirst(2, down), calls: 3, took: time.Second},
		"three failures are reported":   {fail: failFirst(9, down), calls: 3, took: time.Second, message: "store is down"},
		"a time-out is not tried again": {block: 90 * time.Second, calls: 1, took: 60 * time.Second, message: "append to session store for p/a did not return within 1m0s"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := &recorder{fail: tc.fail, block: tc.block}
				var reported []Message
				m := newMirror(r, "/c", false, func(m Message) { reported = append(reported, m) })
				began := time.Now()
				m.frame(mirrorFrame("a", 3, 5))
				m.finish()
				require.Equal(t, tc.took, time.Since(began))
				require.Len(t, r.sizes(), tc.calls)
				if tc.message == "" {
					require.Empty(t, reported)
					return
				}
				require.Len(t, reported, 1)
				failure, ok := reported[0].(*SystemMessage).MirrorError()
				require.True(t, ok)
				require.Equal(t, MirrorError{Error: tc.message, Key: SessionKey{ProjectKey: "p", SessionID: "a"}}, failure)
				time.Sleep(2 * time.Minute) // lets a blocked append return
			})
		})
	}
}

func failFirst(n int, err error) func(int) error {
	return func(call int) error {
		if call <= n {
			return err
		}
		return nil
	}
}

// Spec: mirror
func TestMirrorKeepsOrderWhileADrainRuns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{block: time.Second}
		m := newMirror(r, "/c", false, func(Message) {})
		for range 3 {
			m.frame(mirrorFrame("a", 501, 5))
			synctest.Wait()
		}
		m.flush(t.Context())
		require.Equal(t, []int{501, 1002}, r.sizes(), "what comes during a drain goes out together")
	})
}

const mirroredSession = "11111111-2222-4333-8444-555555555555"

// Spec: mirror
func TestQueryMirrorsToTheStore(t *testing.T) {
	t.Parallel()
	store := &InMemoryStore{}
	opts := childOptions(t, "mirror")
	opts.SessionStore = store
	project, err := ProjectKey(opts.Dir)
	require.NoError(t, err)
	key := SessionKey{ProjectKey: project, SessionID: mirroredSession}

	st := Query(t.Context(), Conversation(UserText("one")), opts)
	for _, err := range st.Turn() {
		require.NoError(t, err)
	}
	entries, err := store.Load(t.Context(), key)
	require.NoError(t, err)
	require.Len(t, entries, 1, "whoever sees a result finds the turn in the store")
	require.NoError(t, st.Send(t.Context(), UserText("two")))
	require.NoError(t, st.CloseInput())
	collect(t, st)
	entries, err = store.Load(t.Context(), key)
	require.NoError(t, err)
	require.Len(t, entries, 3, "what claude writes as it ends is mirrored too")
	subpaths, err := store.ListSubkeys(t.Context(), project, mirroredSession)
	require.NoError(t, err)
	require.Equal(t, []string{"subagents/agent-a"}, subpaths)
}

// Spec: mirror_error
func TestMirrorFailureBecomesAMessage(t *testing.T) {
	t.Parallel()
	opts := childOptions(t, "mirror")
	opts.SessionStore = &recorder{fail: failFirst(99, errors.New("disk full"))}
	var failures int
	for _, m := range collect(t, Query(t.Context(), Text("x"), opts)) {
		if system, ok := m.(*SystemMessage); ok {
			if failure, ok := system.MirrorError(); ok {
				failures++
				require.Equal(t, "disk full", failure.Error)
			}
		}
	}
	require.Positive(t, failures)
}

// Spec: resume from a store
func TestResumeFromStoreUsesATemporaryTree(t *testing.T) {
	t.Parallel()
	store := &InMemoryStore{}
	opts := childOptions(t, "mirror")
	opts.SessionStore, opts.Resume = store, mirroredSession
	home := environ(opts.Env).home()
	require.NoError(t, writeTranscript(home+"/.claude/settings.json", []Entry{Entry(`{"model":"m"}`)}))
	require.NoError(t, writeTranscript(home+"/.claude/.credentials.json", []Entry{Entry(`{"claudeAiOauth":{"accessToken":"a","refreshToken":"r"}}`)}))
	project, err := ProjectKey(opts.Dir)
	require.NoError(t, err)
	key := SessionKey{ProjectKey: project, SessionID: mirroredSession}
	require.NoError(t, store.Append(t.Context(), key, []Entry{Entry(`{"type":"user","uuid":"old"}`)}))

	all := collect(t, Query(t.Context(), Text("new"), opts))
	init, ok := all[0].(*SystemMessage).Init()
	require.True(t, ok)
	require.Equal(t, "{\"type\":\"user\",\"uuid\":\"old\"}\n", init.Cwd, "the child found the transcript")
	require.Contains(t, init.Model, "claude-resume-")
	require.NoDirExists(t, init.Model, "the tree goes after the child")
	entries, err := store.Load(t.Context(), key)
	require.NoError(t, err)
	require.Len(t, entries, 3, "frames from the temporary folder belong to the same session")
}

// Spec: resume from a store
func TestMaterializedTree(t *testing.T) {
	t.Parallel()
	store := &InMemoryStore{}
	opts := childOptions(t, "mirror")
	opts.SessionStore, opts.Continue = store, true
	project, err := ProjectKey(opts.Dir)
	require.NoError(t, err)
	key := SessionKey{ProjectKey: project, SessionID: "older"}
	require.NoError(t, store.Append(t.Context(), key, []Entry{Entry(`1`)}))
	key.SessionID = mirroredSession
	require.NoError(t, store.Append(t.Context(), key, []Entry{Entry("{\n \"type\": \"user\"\n}")}))
	for subpath, entries := range map[string][]Entry{
		"subagents/agent-a": {Entry(`{"type":"user"}`), Entry(`{"type":"agent_metadata","agentType":"x"}`)},
		"../../evil":        {Entry(`{}`)},
	} {
		key.Subpath = subpath
		require.NoError(t, store.Append(t.Context(), key, entries))
	}
	home := environ(opts.Env).home()
	require.NoError(t, writeTranscript(home+"/.claude/.credentials.json", []Entry{Entry(`{"claudeAiOauth":{"accessToken":"a","refreshToken":"r"}}`)}))
	tree, err := materialize(t.Context(), opts, opts.Dir, opts.Env)
	require.NoError(t, err)
	defer tree.remove()
	require.Equal(t, mirroredSession, opts.Resume, "the latest session is what continues")
	require.False(t, opts.Continue)
	base := tree.dir + "/projects/" + project + "/" + mirroredSession
	requireFile(t, base+".jsonl", "{\"type\":\"user\"}\n")
	requireFile(t, base+"/subagents/agent-a.jsonl", "{\"type\":\"user\"}\n")
	requireFile(t, base+"/subagents/agent-a.meta.json", `{"agentType":"x"}`)
	requireFile(t, tree.dir+"/.credentials.json", `{"claudeAiOauth":{"accessToken":"a"}}`)
	require.NoFileExists(t, tree.dir+"/projects/evil.jsonl")
}

// Spec: resume from a store
func TestStoreFailuresComeBeforeAnyProcess(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		store SessionStore
		want  string
	}{
		"load fails": {brokenStore{err: errors.New("no route")}, "no route"},
		"load hangs": {brokenStore{hang: true}, "no answer within 20ms; see Options.LoadTimeout"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			opts := childOptions(t, "mirror")
			opts.SessionStore, opts.Resume, opts.LoadTimeout = tc.store, mirroredSession, 20*time.Millisecond
			opts.Launch = func(context.Context, LaunchSpec) (Process, error) {
				t.Error("a process was started")
				return nil, errors.New("no")
			}
			_, err := Query(t.Context(), Text("x"), opts).Result()
			require.ErrorContains(t, err, tc.want)
		})
	}
	t.Run("continue needs a list", func(t *testing.T) {
		t.Parallel()
		opts := childOptions(t, "mirror")
		opts.SessionStore, opts.Continue = &recorder{}, true
		_, err := Query(t.Context(), Text("x"), opts).Result()
		require.ErrorIs(t, err, ErrUnsupportedByStore)
	})
}

// Spec: resume from a store; Close
func TestClosingWhileTheStoreLoadsStartsNothing(t *testing.T) {
	t.Parallel()
	opts := childOptions(t, "mirror")
	opts.SessionStore, opts.Resume, opts.LoadTimeout = brokenStore{hang: true}, mirroredSession, 100*time.Millisecond
	opts.Launch = func(context.Context, LaunchSpec) (Process, error) {
		t.Error("a process was started")
		return nil, errors.New("no")
	}
	st := Query(t.Context(), Text("x"), opts)
	require.NoError(t, st.Close())
	<-st.Done()
}

type brokenStore struct {
	err  error
	hang bool
}

func (b brokenStore) Append(context.Context, SessionKey, []Entry) error { return b.err }

func (b brokenStore) Load(ctx context.Context, _ SessionKey) ([]Entry, error) {
	if b.hang {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return nil, b.err
}

// Spec: mirror_error
func TestMirrorErrorMessageKeepsTheKey(t *testing.T) {
	t.Parallel()
	m, err := newMirrorError("u", SessionKey{ProjectKey: "p", SessionID: "s", Subpath: "x"}, errors.New("why"))
	require.NoError(t, err)
	require.Equal(t, "x", gjson.GetBytes(m.RawJSON(), "key.subpath").Str)
	require.True(t, json.Valid(m.RawJSON()))
}
