package claude_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/lambae/lambae/sdk/claude"
	"github.com/lambae/lambae/sdk/claude/storetest"
	"github.com/stretchr/testify/require"
)

// Spec: store contract; InMemoryStore
func TestInMemoryStoreKeepsTheContract(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(*testing.T) claude.SessionStore { return &claude.InMemoryStore{} })
}

// Spec: store contract; FileStore
func TestFileStoreKeepsTheContract(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T) claude.SessionStore { return claude.NewFileStore(t.TempDir()) })
}

// Two stores on one folder stand for two processes.
//
// Spec: FileStore
func TestFileStoresOfTwoProcessesShareAFolder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	a, b := claude.NewFileStore(dir), claude.NewFileStore(dir)
	key := claude.SessionKey{ProjectKey: "p", SessionID: "s"}
	for i := range 20 {
		e := []claude.Entry{claude.Entry(fmt.Sprintf(`{"uuid":"%d"}`, i))}
		require.NoError(t, a.Append(t.Context(), key, e))
		require.NoError(t, b.Append(t.Context(), key, e), "the other store knows the uuid too")
	}
	entries, err := b.Load(t.Context(), key)
	require.NoError(t, err)
	require.Len(t, entries, 20)
}

// Spec: FileStore
func TestFileStoreDropsALineThatACrashCutOff(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	key := claude.SessionKey{ProjectKey: "p", SessionID: "s"}
	require.NoError(t, claude.NewFileStore(dir).Append(t.Context(), key, []claude.Entry{claude.Entry(`{"uuid":"a"}`)}))
	path := filepath.Join(dir, "p", "s.jsonl")
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = f.WriteString(`{"uuid":"b","half`)
	require.NoError(t, err)
	require.NoError(t, f.Close())

	s := claude.NewFileStore(dir)
	entries, err := s.Load(t.Context(), key)
	require.NoError(t, err)
	require.Len(t, entries, 1)
	require.NoError(t, s.Append(t.Context(), key, []claude.Entry{claude.Entry(`{"uuid":"b"}`)}))
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "{\"uuid\":\"a\"}\n{\"uuid\":\"b\"}\n", string(data))
}

// Spec: FileStore
func TestFileStoreBringsALateSummaryUpToDate(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := claude.NewFileStore(dir)
	key := claude.SessionKey{ProjectKey: "p", SessionID: "s"}
	require.NoError(t, s.Append(t.Context(), key, []claude.Entry{claude.Entry(`{"type":"tag","tag":"old"}`)}))
	summary := filepath.Join(dir, "p", "s.summary.json")
	old, err := os.ReadFile(summary)
	require.NoError(t, err)
	require.NoError(t, s.Append(t.Context(), key, []claude.Entry{claude.Entry(`{"type":"tag","tag":"new"}`)}))
	require.NoError(t, os.WriteFile(summary, old, 0o600)) // as if the process had died before it wrote it
	got, err := s.ListSessionSummaries(t.Context(), "p")
	require.NoError(t, err)
	var data struct{ Tag string }
	require.NoError(t, json.Unmarshal(got[0].Data, &data))
	require.Equal(t, "new", data.Tag)
}

// Spec: FileStore
func TestFileStoreKeysCannotLeadOut(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	dir := filepath.Join(root, "store")
	s := claude.NewFileStore(dir)
	for _, key := range []claude.SessionKey{
		{ProjectKey: "..", SessionID: "s"},
		{ProjectKey: "p", SessionID: "../../s"},
		{ProjectKey: "p", SessionID: "s", Subpath: "../../../../x"},
		{ProjectKey: "", SessionID: "", Subpath: "/etc/x"},
	} {
		require.NoError(t, s.Append(context.Background(), key, []claude.Entry{claude.Entry(`1`)}))
		entries, err := s.Load(t.Context(), key)
		require.NoError(t, err)
		require.Len(t, entries, 1)
	}
	found, err := os.ReadDir(root)
	require.NoError(t, err)
	require.Len(t, found, 1)
}

// Spec: FileStore
func TestFileStoreRefusesWhatIsNotJSON(t *testing.T) {
	t.Parallel()
	s := claude.NewFileStore(t.TempDir())
	key := claude.SessionKey{ProjectKey: "p", SessionID: "s"}
	require.ErrorContains(t, s.Append(t.Context(), key, []claude.Entry{claude.Entry(`{`)}), "not JSON")
	entries, err := s.Load(t.Context(), key)
	require.NoError(t, err)
	require.Nil(t, entries)
}
