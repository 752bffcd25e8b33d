package claude

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const sessionA, sessionB = "aaaaaaaa-0000-4000-8000-000000000001", "aaaaaaaa-0000-4000-8000-000000000002"

// config is claude's folder with the given transcripts, by project and id.
func config(t *testing.T, transcripts map[string][]string) *SessionOptions {
	dir := t.TempDir()
	at := time.Unix(1_700_000_000, 0)
	for path, lines := range transcripts {
		path = filepath.Join(dir, "projects", path+".jsonl")
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte(strings.Join(append(lines, ""), "\n")), 0o600))
		require.NoError(t, os.Chtimes(path, at, at))
	}
	return &SessionOptions{ConfigDir: dir}
}

func said(uuid, parent, kind, text string, more ...string) string {
	p := "null"
	if parent != "" {
		p = `"` + parent + `"`
	}
	return fmt.Sprintf(`{"parentUuid":%s,"type":%q,"uuid":%q,"sessionId":"s","message":{"role":%q,"content":%q}%s}`,
		p, kind, uuid, kind, text, strings.Join(more, ""))
}

// Spec: ListSessions; GetSessionInfo
func TestSummaryOfASession(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		lines []string
		want  string // empty: not listed
	}{
		"first prompt":           {[]string{said("a", "", "user", "hello")}, "hello"},
		"last prompt":            {[]string{said("a", "", "user", "hello"), `{"type":"last-prompt","lastPrompt":"bye"}`}, "bye"},
		"summary":                {[]string{said("a", "", "user", "hello"), `{"type":"summary","summary":"sum"}`}, "sum"},
		"claude's title":         {[]string{said("a", "", "user", "hello"), `{"type":"ai-title","aiTitle":"ai"}`}, "ai"},
		"the user's title":       {[]string{`{"type":"custom-title","customTitle":"mine"}`, said("a", "", "user", "x"), `{"type":"ai-title","aiTitle":"ai"}`}, "mine"},
		"the last title":         {[]string{`{"type":"custom-title","customTitle":"old"}`, `{"type":"custom-title","customTitle":"new"}`}, "new"},
		"command if nothing":     {[]string{said("a", "", "user", "<command-name>/clear</command-name>")}, "/clear"},
		"prompt over command":    {[]string{said("a", "", "user", "<command-name>/clear</command-name>"), said("b", "a", "user", "real")}, "real"},
		"shell command":          {[]string{said("a", "", "user", "<bash-input>ls</bash-input>")}, "! ls"},
		"image":                  {[]string{`{"type":"user","uuid":"a","message":{"content":[{"type":"image"}]}}`}, "Image"},
		"not claude's own words": {[]string{said("a", "", "user", "<system-reminder>x"), said("b", "a", "user", "remark", `,"isMeta":true`), said("c", "b", "user", "me")}, "me"},
		"cut at 200 units":       {[]string{said("a", "", "user", strings.Repeat("x", 201))}, strings.Repeat("x", 200) + "…"},
		"a damaged line":         {[]string{`{"broken`, said("a", "", "user", "after")}, "after"},
		"side chain":             {[]string{said("a", "", "user", "x", `,"isSidechain":true`)}, ""},
		"nothing said":           {[]string{said("a", "", "assistant", "x")}, ""},
		"nothing at all":         {nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			opts := config(t, map[string][]string{"-p/" + sessionA: tc.lines})
			list, err := ListSessions(t.Context(), &ListOptions{SessionOptions: *opts})
			require.NoError(t, err)
			info, err := GetSessionInfo(t.Context(), sessionA, opts)
			if tc.want == "" {
				require.Empty(t, list)
				require.ErrorIs(t, err, ErrSessionNotFound)
				return
			}
			require.NoError(t, err)
			require.Len(t, list, 1)
			require.Equal(t, tc.want, list[0].Summary)
			require.Equal(t, list[0], info)
			require.Equal(t, int64(1_700_000_000_000), info.LastModified)
		})
	}
}

// Spec: GetSessionMessages
func TestConversationOfATranscript(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		lines []string
		want  string
	}{
		"in a line":              {[]string{said("a", "", "user", ""), said("b", "a", "assistant", ""), said("c", "b", "user", "")}, "a b c"},
		"the last branch":        {[]string{said("a", "", "user", ""), said("b", "a", "assistant", ""), said("c", "a", "user", "")}, "a c"},
		"attachments link":       {[]string{said("a", "", "user", ""), said("x", "a", "attachment", ""), said("b", "x", "assistant", "")}, "a b"},
		"progress is skipped":    {[]string{said("a", "", "user", ""), said("x", "a", "progress", ""), said("b", "x", "assistant", "")}, "a b"},
		"remarks are left out":   {[]string{said("a", "", "user", ""), said("m", "a", "user", "", `,"isMeta":true`), said("b", "m", "assistant", "")}, "a b"},
		"compaction cuts":        {[]string{said("a", "", "user", ""), said("c", "", "system", "", `,"subtype":"compact_boundary"`), said("s", "c", "user", ""), said("b", "s", "assistant", "")}, "s b"},
		"what it preserved":      {[]string{said("a", "", "user", ""), said("b", "a", "assistant", ""), said("c", "", "system", "", `,"subtype":"compact_boundary","compactMetadata":{"preservedSegment":{"headUuid":"b","anchorUuid":"s","tailUuid":"b"}}`), said("s", "c", "user", ""), said("d", "b", "user", "")}, "s b d"},
		"a circle has no end":    {[]string{said("a", "b", "user", ""), said("b", "a", "assistant", "")}, ""},
		"a parent that is gone":  {[]string{said("a", "zz", "user", ""), said("b", "a", "assistant", "")}, "a b"},
		"entries written twice":  {[]string{said("a", "", "user", "old"), said("b", "a", "assistant", ""), said("a", "", "user", "new")}, "a b"},
		"damaged lines":          {[]string{said("a", "", "user", ""), `{"uuid"`, said("b", "a", "assistant", "")}, "a b"},
		"a teammate's last word": {[]string{said("a", "", "user", ""), said("b", "a", "assistant", "", `,"teamName":"t"`)}, "a"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			opts := config(t, map[string][]string{"-p/" + sessionA: tc.lines})
			messages, err := GetSessionMessages(t.Context(), sessionA, &MessagesOptions{SessionOptions: *opts})
			require.NoError(t, err)
			var got []string
			for _, m := range messages {
				got = append(got, m.UUID)
			}
			require.Equal(t, tc.want, strings.Join(got, " "))
		})
	}
}

// Spec: GetSessionMessages
func TestParallelToolResultsAreAllThere(t *testing.T) {
	t.Parallel()
	call := func(uuid, parent string) string {
		return fmt.Sprintf(`{"type":"assistant","uuid":%q,"parentUuid":%q,"message":{"id":"m","content":[{"type":"tool_use","id":"t%s"}]}}`, uuid, parent, uuid)
	}
	result := func(uuid, parent string) string {
		return fmt.Sprintf(`{"type":"user","uuid":%q,"parentUuid":%q,"message":{"content":[{"type":"tool_result","tool_use_id":"t%s"}]}}`, uuid, parent, parent)
	}
	opts := config(t, map[string][]string{"-p/" + sessionA: {
		said("a", "", "user", ""), call("b1", "a"), call("b2", "b1"), result("r1", "b1"), result("r2", "b2"), said("c", "r2", "assistant", ""),
	}})
	messages, err := GetSessionMessages(t.Context(), sessionA, &MessagesOptions{SessionOptions: *opts})
	require.NoError(t, err)
	var got []string
	for _, m := range messages {
		got = append(got, m.UUID)
	}
	require.Equal(t, []string{"a", "b1", "b2", "r1", "r2", "c"}, got)
}

// Spec: RenameSession; TagSession; DeleteSession; ForkSession
// Spec: ImportSessionToStore; a store with Append and Load
func TestSessionFunctionsRefuseBadInput(t *testing.T) {
	t.Parallel()
	opts := config(t, map[string][]string{"-p/" + sessionA: {said("a", "", "user", "x")}})
	ctx, empty, store := t.Context(), " ", &InMemoryStore{}
	for name, tc := range map[string]struct {
		err  error
		want string
	}{
		"rename what is no id":  {RenameSession(ctx, "x", "t", opts), "not a UUID"},
		"rename to nothing":     {RenameSession(ctx, sessionA, "  ", opts), "must not be empty"},
		"tag with nothing":      {TagSession(ctx, sessionA, &empty, opts), "pass nil to clear"},
		"rename the unknown":    {RenameSession(ctx, sessionB, "t", opts), "not found"},
		"delete the unknown":    {DeleteSession(ctx, sessionB, opts), "not found"},
		"import what is no id":  {ImportSessionToStore(ctx, "x", store, nil), "not a UUID"},
		"import the unknown":    {ImportSessionToStore(ctx, sessionB, store, &ImportOptions{SessionOptions: *opts}), "not found"},
		"fork to unknown":       {second(ForkSession(ctx, sessionA, &ForkOptions{SessionOptions: *opts, UpTo: "zz"})), "not in session"},
		"list without a list":   {second(ListSessions(ctx, &ListOptions{SessionOptions: SessionOptions{Store: brokenStore{}}})), "ListSessions"},
		"subagents without one": {second(ListSubagents(ctx, sessionA, &SessionOptions{Store: brokenStore{}})), "ListSubkeys"},
	} {
		require.ErrorContains(t, tc.err, tc.want, name)
	}
	require.NoError(t, DeleteSession(ctx, sessionA, &SessionOptions{Store: brokenStore{}}), "a store that cannot delete keeps")
}

func second[T any](_ T, err error) error { return err }

// Spec: GetSessionInfo
func TestUnreadableIsNotNotFound(t *testing.T) {
	t.Parallel()
	opts := config(t, map[string][]string{"-p/" + sessionA: {said("a", "", "user", "x")}})
	path := filepath.Join(opts.ConfigDir, "projects", "-p", sessionB+".jsonl")
	require.NoError(t, os.Symlink(path, path)) // a loop: stat fails, but not with "not found"
	_, err := GetSessionInfo(t.Context(), sessionB, opts)
	require.Error(t, err)
	require.NotErrorIs(t, err, ErrSessionNotFound)
}

// Spec: ImportSessionToStore
func TestImportIsOrderedAndSafeToRepeat(t *testing.T) {
	t.Parallel()
	opts := config(t, map[string][]string{
		"-p/" + sessionA: {said("a", "", "user", "x"), "5", `"text"`, "", "null", "{bad", "[1]", said("b", "a", "assistant", "y")},
		"-p/" + sessionA + "/subagents/w/agent-z": {said("c", "", "user", "z")},
	})
	agent := filepath.Join(opts.ConfigDir, "projects", "-p", sessionA, "subagents", "w", "agent-z")
	require.NoError(t, os.WriteFile(agent+".meta.json", []byte(`{"agentType":"x"}`), 0o600))
	require.NoError(t, os.Symlink(agent+".jsonl", filepath.Join(filepath.Dir(agent), "agent-link.jsonl")))
	store := &InMemoryStore{}
	in := &ImportOptions{SessionOptions: *opts, BatchSize: 2}
	require.NoError(t, ImportSessionToStore(t.Context(), sessionA, store, in))
	key, err := opts.key(sessionA)
	require.NoError(t, err)
	entries, err := store.Load(t.Context(), key)
	require.NoError(t, err)
	require.Len(t, entries, 6, "every JSON value, no empty or malformed line")
	subpaths, err := store.ListSubkeys(t.Context(), key.ProjectKey, sessionA)
	require.NoError(t, err)
	require.Equal(t, []string{"subagents/w/agent-z"}, subpaths, "links are not followed")
	key.Subpath = subpaths[0]
	entries, err = store.Load(t.Context(), key)
	require.NoError(t, err)
	require.JSONEq(t, `{"type":"agent_metadata","agentType":"x"}`, string(entries[1]))

	require.NoError(t, ImportSessionToStore(t.Context(), sessionA, store, in))
	key.Subpath = ""
	entries, err = store.Load(t.Context(), key)
	require.NoError(t, err)
	require.Len(t, entries, 6+4, "entries with a uuid are known")
}

// Spec: ImportSessionToStore
func TestImportStopsAtAFailureAndKeepsWhatLanded(t *testing.T) {
	t.Parallel()
	opts := config(t, map[string][]string{"-p/" + sessionA: {"1", "2", "3", "4", "5"}})
	store := &recorder{fail: func(call int) error {
		if call == 2 {
			return os.ErrDeadlineExceeded
		}
		return nil
	}}
	err := ImportSessionToStore(t.Context(), sessionA, store, &ImportOptions{SessionOptions: *opts, BatchSize: 2})
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	require.Equal(t, []int{2, 2}, store.sizes())
}

// Spec: ImportSessionToStore; speed
func TestImportOf100MBStaysUnder64MB(t *testing.T) {
	if testing.Short() {
		t.Skip("reads 100 MB")
	}
	config, id := bigSession(t, 100<<20) // not parallel: it measures the heap
	peak := peakDuring(func() {
		err := ImportSessionToStore(t.Context(), id, &countingStore{}, &ImportOptions{SessionOptions: SessionOptions{ConfigDir: config}})
		require.NoError(t, err)
	})
	require.Less(t, peak, uint64(64<<20))
}

// Spec: ListSessions; project folders
func TestWorktreesShareSessions(t *testing.T) {
	t.Parallel()
	repo, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	tree := filepath.Join(repo, "..", "tree-"+filepath.Base(repo))
	git(t, repo, "init", "-q")
	git(t, repo, "-c", "user.name=n", "-c", "user.email=e@x", "commit", "-q", "--allow-empty", "-m", "x")
	git(t, repo, "worktree", "add", "-q", tree)
	t.Cleanup(func() { os.RemoveAll(tree) })
	main, err := ProjectKey(repo)
	require.NoError(t, err)
	other, err := ProjectKey(tree)
	require.NoError(t, err)
	opts := config(t, map[string][]string{
		main + "/" + sessionA: {said("a", "", "user", "in main")}, other + "/" + sessionB: {said("a", "", "user", "in tree")},
	})
	opts.Dir = repo
	list, err := ListSessions(t.Context(), &ListOptions{SessionOptions: *opts})
	require.NoError(t, err)
	require.Len(t, list, 2)
	list, err = ListSessions(t.Context(), &ListOptions{SessionOptions: *opts, OnlyDir: true})
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.Equal(t, repo, list[0].Cwd)
	info, err := GetSessionInfo(t.Context(), sessionB, opts)
	require.NoError(t, err)
	require.Equal(t, "in tree", info.Summary)
}
