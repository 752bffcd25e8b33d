//go:build claude

package conformance

import (
	"testing"

	"github.com/lambae/lambae/sdk/claude"
	"github.com/stretchr/testify/require"
)

// Spec: options; ListSessions; GetSessionInfo; GetSessionMessages
// Spec: RenameSession; TagSession; ForkSession; DeleteSession
// Spec: agreement with the binary
func TestResumeForkAndContinueOnClaudesOwnFiles(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	here := claude.SessionOptions{ConfigDir: p.config, Dir: p.project}
	_, first := run(t, claude.Query(t.Context(), claude.Text("first prompt"), p.options(t)))

	opts := p.options(t)
	opts.Resume = first.SessionID
	_, second := run(t, claude.Query(t.Context(), claude.Text("second prompt"), opts))
	require.Equal(t, first.SessionID, second.SessionID)
	require.Equal(t, []string{"first prompt", "ok: first prompt", "second prompt", "ok: second prompt"},
		conversation(t, first.SessionID, here))

	opts = p.options(t)
	opts.Resume, opts.ForkSession = first.SessionID, true
	_, fork := run(t, claude.Query(t.Context(), claude.Text("in the fork"), opts))
	require.NotEqual(t, first.SessionID, fork.SessionID)
	require.Len(t, conversation(t, fork.SessionID, here), 6)
	require.Len(t, conversation(t, first.SessionID, here), 4)

	opts = p.options(t)
	opts.Continue = true
	_, continued := run(t, claude.Query(t.Context(), claude.Text("go on"), opts))
	require.Equal(t, fork.SessionID, continued.SessionID)

	list, err := claude.ListSessions(t.Context(), &claude.ListOptions{SessionOptions: here})
	require.NoError(t, err)
	require.Len(t, list, 2)
	info, err := claude.GetSessionInfo(t.Context(), first.SessionID, &here)
	require.NoError(t, err)
	require.Equal(t, "first prompt", info.FirstPrompt)
	require.Equal(t, "second prompt", info.Summary)
	require.Equal(t, p.project, info.Cwd)
	require.Equal(t, "claude-sonnet-5", info.Model)
	require.FileExists(t, info.TranscriptPath)

	// What our functions write, claude reads.
	copied, err := claude.ForkSession(t.Context(), first.SessionID, &claude.ForkOptions{SessionOptions: here, Title: "A copy"})
	require.NoError(t, err)
	require.NoError(t, claude.RenameSession(t.Context(), first.SessionID, "Renamed", &here))
	tag := "kept"
	require.NoError(t, claude.TagSession(t.Context(), first.SessionID, &tag, &here))
	opts = p.options(t)
	opts.Resume = copied
	run(t, claude.Query(t.Context(), claude.Text("third prompt"), opts))
	require.Len(t, conversation(t, copied, here), 6)
	info, err = claude.GetSessionInfo(t.Context(), first.SessionID, &here)
	require.NoError(t, err)
	require.Equal(t, "Renamed", info.Summary)
	require.Equal(t, "kept", info.Tag)
	require.NoError(t, claude.DeleteSession(t.Context(), first.SessionID, &here))
	_, err = claude.GetSessionInfo(t.Context(), first.SessionID, &here)
	require.ErrorIs(t, err, claude.ErrSessionNotFound)
}

func conversation(t *testing.T, id string, opts claude.SessionOptions) []string {
	t.Helper()
	messages, err := claude.GetSessionMessages(t.Context(), id, &claude.MessagesOptions{SessionOptions: opts})
	require.NoError(t, err)
	var texts []string
	for _, m := range messages {
		texts = append(texts, m.Text())
	}
	return texts
}

// Spec: ImportSessionToStore; resume from a store; agreement with the binary
func TestImportedSessionResumes(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	_, first := run(t, claude.Query(t.Context(), claude.Text("local words"), p.options(t)))
	store := &claude.InMemoryStore{}
	here := claude.SessionOptions{ConfigDir: p.config, Dir: p.project}
	require.NoError(t, claude.ImportSessionToStore(t.Context(), first.SessionID, store, &claude.ImportOptions{SessionOptions: here}))
	require.NoError(t, claude.DeleteSession(t.Context(), first.SessionID, &here))
	opts := p.options(t)
	opts.SessionStore, opts.Resume = store, first.SessionID
	_, second := run(t, claude.Query(t.Context(), claude.Text("more words"), opts))
	require.Equal(t, first.SessionID, second.SessionID)
	require.Len(t, conversation(t, first.SessionID, claude.SessionOptions{Store: store, Dir: p.project}), 4)
}
