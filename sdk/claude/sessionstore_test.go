package claude

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// plainStore has no optional interface.
type plainStore struct{ store InMemoryStore }

func (s *plainStore) Append(ctx context.Context, key SessionKey, entries []Entry) error {
	return s.store.Append(ctx, key, entries)
}

func (s *plainStore) Load(ctx context.Context, key SessionKey) ([]Entry, error) {
	return s.store.Load(ctx, key)
}

// storeWith returns options for a store that holds session A.
func storeWith(t *testing.T, store SessionStore) *SessionOptions {
	opts := &SessionOptions{Store: store, Dir: t.TempDir()}
	key, err := opts.key(sessionA)
	require.NoError(t, err)
	require.NoError(t, store.Append(t.Context(), key, []Entry{
		Entry(said("a", "", "user", "hello")), Entry(said("b", "a", "assistant", "hi")),
		Entry(said("c", "b", "user", "bye")),
	}))
	return opts
}

// Spec: a store with Append and Load; GetSessionInfo; GetSessionMessages
// Spec: RenameSession; TagSession; ForkSession
func TestAppendAndLoadAreEnoughForAllButListing(t *testing.T) {
	t.Parallel()
	for name, store := range map[string]SessionStore{
		"plain": &plainStore{}, "in memory": &InMemoryStore{}, "in a folder": NewFileStore(t.TempDir()),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, opts := t.Context(), storeWith(t, store)
			info, err := GetSessionInfo(ctx, sessionA, opts)
			require.NoError(t, err)
			require.Equal(t, "hello", info.Summary)
			require.Positive(t, info.FileSize)
			messages, err := GetSessionMessages(ctx, sessionA, &MessagesOptions{SessionOptions: *opts, Limit: 2, Offset: 1})
			require.NoError(t, err)
			require.Len(t, messages, 2)
			require.Equal(t, "b", messages[0].UUID)

			tag := "kept"
			require.NoError(t, TagSession(ctx, sessionA, &tag, opts))
			require.NoError(t, RenameSession(ctx, sessionA, "Named", opts))
			info, err = GetSessionInfo(ctx, sessionA, opts)
			require.NoError(t, err)
			require.Equal(t, "Named", info.CustomTitle)
			require.Equal(t, "kept", info.Tag)
			require.NoError(t, TagSession(ctx, sessionA, nil, opts))
			info, err = GetSessionInfo(ctx, sessionA, opts)
			require.NoError(t, err)
			require.Empty(t, info.Tag)

			fork, err := ForkSession(ctx, sessionA, &ForkOptions{SessionOptions: *opts, UpTo: "b"})
			require.NoError(t, err)
			copied, err := GetSessionMessages(ctx, fork, &MessagesOptions{SessionOptions: *opts})
			require.NoError(t, err)
			require.Len(t, copied, 2)
			require.Equal(t, "hi", copied[1].Text())
			require.NotEqual(t, "b", copied[1].UUID)
			info, err = GetSessionInfo(ctx, fork, opts)
			require.NoError(t, err)
			require.Equal(t, "Named (fork)", info.CustomTitle)

			_, err = GetSessionInfo(ctx, sessionB, opts)
			require.ErrorIs(t, err, ErrSessionNotFound)
			none, err := GetSessionMessages(ctx, sessionB, &MessagesOptions{SessionOptions: *opts})
			require.NoError(t, err)
			require.Empty(t, none)
			_, err = ForkSession(ctx, sessionB, &ForkOptions{SessionOptions: *opts})
			require.ErrorIs(t, err, ErrSessionNotFound)
		})
	}
}

// Spec: ListSessions; DeleteSession; ListSubagents; GetSubagentMessages
func TestStoresListAndForget(t *testing.T) {
	t.Parallel()
	for name, store := range map[string]SessionStore{"in memory": &InMemoryStore{}, "in a folder": NewFileStore(t.TempDir())} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, opts := t.Context(), storeWith(t, store)
			key, err := opts.key(sessionA)
			require.NoError(t, err)
			key.Subpath = "subagents/w/agent-z"
			require.NoError(t, store.Append(ctx, key, []Entry{
				Entry(said("u", "", "user", "task")), Entry(said("v", "u", "assistant", "done")), Entry(said("w", "v", "system", "note")),
			}))
			agents, err := ListSubagents(ctx, sessionA, opts)
			require.NoError(t, err)
			require.Equal(t, []string{"z"}, agents)
			messages, err := GetSubagentMessages(ctx, sessionA, "z", &MessagesOptions{SessionOptions: *opts})
			require.NoError(t, err)
			require.Len(t, messages, 2, "those of the user and of the model only")

			list, err := ListSessions(ctx, &ListOptions{SessionOptions: *opts})
			require.NoError(t, err)
			require.Len(t, list, 1)
			require.Equal(t, "hello", list[0].Summary)
			require.NoError(t, DeleteSession(ctx, sessionA, opts))
			list, err = ListSessions(ctx, &ListOptions{SessionOptions: *opts})
			require.NoError(t, err)
			require.Empty(t, list)
			agents, err = ListSubagents(ctx, sessionA, opts)
			require.NoError(t, err)
			require.Empty(t, agents)
		})
	}
}

// Spec: FoldSessionSummary
func TestFoldingInPiecesIsFoldingAtOnce(t *testing.T) {
	t.Parallel()
	key := SessionKey{ProjectKey: "p", SessionID: sessionA}
	entry := rapid.SampledFrom([]Entry{
		Entry(said("a", "", "user", "hello")), Entry(said("b", "a", "assistant", "hi")), Entry(`5`), Entry(`null`),
		Entry(said("c", "", "user", "<command-name>/clear</command-name>")), Entry(said("d", "", "user", "x", `,"isSidechain":true`)),
		Entry(`{"type":"tag","tag":"t"}`), Entry(`{"type":"tag","tag":""}`), Entry(`{"type":"custom-title","customTitle":"T"}`),
		Entry(`{"type":"last-prompt","lastPrompt":"l"}`), Entry(`{"type":"summary","summary":"s","cwd":"/c","gitBranch":"g"}`),
	})
	rapid.Check(t, func(t *rapid.T) {
		entries := rapid.SliceOf(entry).Draw(t, "entries")
		cut := rapid.IntRange(0, len(entries)).Draw(t, "cut")
		before := fmt.Sprint(entries)
		whole := FoldSessionSummary(nil, key, entries, 7)
		first := FoldSessionSummary(nil, key, entries[:cut], 7)
		require.Equal(t, whole, FoldSessionSummary(&first, key, entries[cut:], 0), "an mtime of 0 keeps the earlier one")
		require.Equal(t, before, fmt.Sprint(entries), "the fold is pure")
	})
}
