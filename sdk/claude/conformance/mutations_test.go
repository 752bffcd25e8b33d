//go:build claude

package conformance

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/lambae/lambae/sdk/claude"
	"github.com/stretchr/testify/require"
)

// copyTree copies a folder, so that each SDK changes its own.
func copyTree(t *testing.T, from string) string {
	to := t.TempDir()
	require.NoError(t, os.CopyFS(to, os.DirFS(from)))
	return to
}

// endLines ends the last line of every transcript. The JavaScript SDK appends
// to the middle of a torn one and so loses both; ours does not.
func (f *folder) endLines(t *testing.T) {
	paths, err := filepath.Glob(filepath.Join(f.config, "projects", "*", "*.jsonl"))
	require.NoError(t, err)
	for _, path := range paths {
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		if len(data) > 0 && data[len(data)-1] != '\n' {
			require.NoError(t, os.WriteFile(path, append(data, '\n'), 0o600))
		}
	}
}

var (
	anyUUID = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	anyTime = regexp.MustCompile(`20\d\d-\d\d-\d\dT[\d:.]+Z`)
)

// anonymous replaces the names that every fork makes anew by their order of
// appearance, and times of today by one.
func anonymous(text string) string {
	names := make(map[string]string)
	text = anyUUID.ReplaceAllStringFunc(text, func(id string) string {
		if strings.HasPrefix(id, "00000000-") {
			return id
		}
		if names[id] == "" {
			names[id] = fmt.Sprint("#", len(names))
		}
		return names[id]
	})
	return anyTime.ReplaceAllStringFunc(text, func(at string) string {
		if strings.HasPrefix(at, "2026-01-02") {
			return at
		}
		return "now"
	})
}

// sameLines compares transcripts line by line as JSON.
func sameLines(t *testing.T, want, got string) {
	t.Helper()
	w, g := strings.Split(strings.TrimSpace(anonymous(want)), "\n"), strings.Split(strings.TrimSpace(anonymous(got)), "\n")
	require.Equal(t, len(w), len(g), "lines\n%s\n---\n%s", shorten(want), shorten(got))
	for i := range w {
		if !json.Valid([]byte(w[i])) {
			require.Equal(t, w[i], g[i])
			continue
		}
		require.JSONEq(t, w[i], g[i], "line %d\n%s\n%s", i, shorten(w[i]), shorten(g[i]))
	}
}

// Spec: RenameSession; TagSession; ForkSession; DeleteSession
// Spec: agreement with the JavaScript SDK
func TestMutationsLeaveTheSameFilesAsTheJavaScriptSDK(t *testing.T) {
	t.Parallel()
	for _, seed := range seeds[:4] {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			f := newFolder(t, seed, 20)
			f.endLines(t)
			theirs, ours := copyTree(t, f.config), copyTree(t, f.config)
			type outcome struct{ Fork, ForkTo, Error string }
			var results map[string]outcome
			env := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + theirs, "CLAUDE_CONFIG_DIR=" + theirs}
			javascript(t, env, theirs, `const r = {};
				for (const [i, id] of A.entries()) { const o = r[id] = {};
					try {
						const m = await S.getSessionMessages(id);
						if (i % 3 === 0) await S.renameSession(id, '  New "title" é <x>  ');
						if (i % 4 === 0) await S.tagSession(id, 'tagged');
						if (i % 8 === 0) await S.tagSession(id, null);
						o.Fork = (await S.forkSession(id)).sessionId;
						if (m.length > 1) o.ForkTo = (await S.forkSession(id, {upToMessageId: m[1].uuid, title: 'Up to here'})).sessionId;
						if (i % 5 === 0) await S.deleteSession(id);
					} catch (e) { o.Error = e.message }
				}
				out(r);`, f.ids, &results)

			ctx, opts := t.Context(), claude.SessionOptions{ConfigDir: ours}
			for i, id := range f.ids {
				their := results[id]
				var our outcome
				err := func() (err error) {
					m, err := claude.GetSessionMessages(ctx, id, &claude.MessagesOptions{SessionOptions: opts})
					if err != nil {
						return err
					}
					if i%3 == 0 {
						if err := claude.RenameSession(ctx, id, `  New "title" é <x>  `, &opts); err != nil {
							return err
						}
					}
					if tag := "tagged"; i%4 == 0 {
						if err := claude.TagSession(ctx, id, &tag, &opts); err != nil {
							return err
						}
					}
					if i%8 == 0 {
						if err := claude.TagSession(ctx, id, nil, &opts); err != nil {
							return err
						}
					}
					if our.Fork, err = claude.ForkSession(ctx, id, &claude.ForkOptions{SessionOptions: opts}); err != nil {
						return err
					}
					if len(m) > 1 {
						our.ForkTo, err = claude.ForkSession(ctx, id, &claude.ForkOptions{SessionOptions: opts, UpTo: m[1].UUID, Title: "Up to here"})
						if err != nil {
							return err
						}
					}
					if i%5 == 0 {
						return claude.DeleteSession(ctx, id, &opts)
					}
					return nil
				}()
				require.Equal(t, their.Error != "", err != nil, "%s: %s / %v", id, their.Error, err)
				if err != nil {
					continue
				}
				sameLines(t, transcript(t, theirs, their.Fork), transcript(t, ours, our.Fork))
				if their.ForkTo != "" {
					sameLines(t, transcript(t, theirs, their.ForkTo), transcript(t, ours, our.ForkTo))
				}
				if i%5 == 0 {
					require.Empty(t, transcript(t, theirs, id))
					require.Empty(t, transcript(t, ours, id))
					continue
				}
				sameLines(t, transcript(t, theirs, id), transcript(t, ours, id))
			}
		})
	}
}

func transcript(t *testing.T, config, id string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(config, "projects", "*", id+".jsonl"))
	require.NoError(t, err)
	if len(found) == 0 {
		return ""
	}
	data, err := os.ReadFile(found[0])
	require.NoError(t, err)
	return string(data)
}

// Spec: FoldSessionSummary; ImportSessionToStore
// Spec: agreement with the JavaScript SDK
func TestImportAndFoldGiveTheSameAsTheJavaScriptSDK(t *testing.T) {
	t.Parallel()
	for _, seed := range seeds[:4] {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			f := newFolder(t, seed, 20)
			type session struct {
				Error  string
				Stored map[string][]json.RawMessage
				Data   json.RawMessage
				Agents []string
			}
			var theirs map[string]session
			var projectKey string
			javascript(t, f.env(), f.config, `const r = {};
				for (const id of A) { const o = r[id] = {Stored: {}};
					const store = {append: async (k, e) => { (o.Stored[k.subpath ?? ''] ??= []).push(...e) }, load: async () => null};
					try { await S.importSessionToStore(id, store, {batchSize: 3}); o.Data = S.foldSessionSummary(undefined, {projectKey: 'p', sessionId: id}, o.Stored[''] ?? []).data } catch (e) { o.Error = e.message }
				}
				let key; await S.listSessions({sessionStore: {append() {}, load() {}, listSessions: async p => { key = p; return [] }}}); r.key = {Error: key};
				out(r);`, f.ids, &theirs)
			projectKey = theirs["key"].Error
			ourKey, err := claude.ProjectKey(f.config)
			require.NoError(t, err)
			require.Equal(t, projectKey, ourKey)
			for _, id := range f.ids {
				their := theirs[id]
				store := &claude.InMemoryStore{}
				err := claude.ImportSessionToStore(t.Context(), id, store, &claude.ImportOptions{
					SessionOptions: claude.SessionOptions{ConfigDir: f.config}, BatchSize: 3,
				})
				require.Equal(t, their.Error != "", err != nil, "%s / %v", their.Error, err)
				if err != nil {
					continue
				}
				wd, err := claude.ProjectKey(".")
				require.NoError(t, err)
				key := claude.SessionKey{ProjectKey: wd, SessionID: id}
				for subpath, want := range their.Stored {
					key.Subpath = subpath
					got, err := store.Load(t.Context(), key)
					require.NoError(t, err)
					require.Equal(t, len(want), len(got), subpath)
					for i := range want {
						require.JSONEq(t, string(want[i]), string(got[i]))
					}
				}
				key.Subpath = ""
				entries, err := store.Load(t.Context(), key)
				require.NoError(t, err)
				require.JSONEq(t, string(their.Data), string(claude.FoldSessionSummary(nil, key, entries, 0).Data))
			}
		})
	}
}

// Spec: project folders; agreement with the JavaScript SDK
func TestProjectKeysAreThoseOfTheJavaScriptSDK(t *testing.T) {
	t.Parallel()
	dirs := []string{"/tmp", "/", "/a.b c_d-é", "/cafe\u0301", "/日本/🎉", "/" + strings.Repeat("l", 199), "/" + strings.Repeat("l", 200),
		"/" + strings.Repeat("l", 500), "/" + strings.Repeat("🎉x", 120), "/x/../y//z/", "/a/" + strings.Repeat("deep/", 60)}
	var theirs []string
	javascript(t, os.Environ(), t.TempDir(), `const r = [];
		for (const dir of A) await S.listSessions({dir, sessionStore: {append() {}, load() {}, listSessions: async p => { r.push(p); return [] }}});
		out(r);`, dirs, &theirs)
	for i, dir := range dirs {
		ours, err := claude.ProjectKey(dir)
		require.NoError(t, err)
		require.Equal(t, theirs[i], ours, dir)
	}
}

// shorten makes a transcript fit a failure's message.
func shorten(text string) string {
	var out []string
	for line := range strings.Lines(text) {
		out = append(out, line[:min(len(line), 300)])
	}
	return strings.Join(out, "\n")
}
