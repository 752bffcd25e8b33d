package dynamostore_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/lambae/lambae/internal/table/tabletest/ministack"
	"github.com/lambae/lambae/sdk/claude"
	"github.com/lambae/lambae/sdk/claude/dynamostore"
	"github.com/lambae/lambae/sdk/claude/storetest"
	"github.com/stretchr/testify/require"
)

func table(t *testing.T) (*dynamodb.Client, string) {
	db, name := ministack.Client(ministack.Endpoint(t)), ministack.TableName()
	require.NoError(t, dynamostore.CreateTable(t.Context(), db, name))
	require.NoError(t, dynamostore.CreateTable(t.Context(), db, name), "a second time changes nothing")
	return db, name
}

// Spec: store contract; DynamoDB store
func TestStoreKeepsTheContract(t *testing.T) {
	t.Parallel()
	db, name := table(t)
	storetest.Run(t, func(*testing.T) claude.SessionStore { return dynamostore.New(db, name) })
}

// Several stores on one table stand for processes on several machines.
//
// Spec: DynamoDB store
func TestStoresOfSeveralProcessesShareASession(t *testing.T) {
	t.Parallel()
	db, name := table(t)
	key := claude.SessionKey{ProjectKey: "p", SessionID: "s"}
	const writers, each = 4, 5
	errs := make(chan error, writers)
	for w := range writers {
		go func() {
			store := dynamostore.New(db, name)
			var err error
			for n := 0; n < each && err == nil; n++ {
				err = store.Append(context.WithoutCancel(t.Context()), key, []claude.Entry{
					claude.Entry(fmt.Sprintf(`{"uuid":"%d-%d"}`, w, n)), claude.Entry(fmt.Sprintf(`{"uuid":"shared-%d"}`, n)),
				})
			}
			errs <- err
		}()
	}
	for range writers {
		require.NoError(t, <-errs)
	}
	entries, err := dynamostore.New(db, name).Load(t.Context(), key)
	require.NoError(t, err)
	require.Len(t, entries, writers*each+each)
	summaries, err := dynamostore.New(db, name).ListSessionSummaries(t.Context(), "p")
	require.NoError(t, err)
	require.JSONEq(t, string(claude.FoldSessionSummary(nil, key, entries, 0).Data), string(summaries[0].Data))
}

// Spec: DynamoDB store
func TestEntriesOfAnySize(t *testing.T) {
	t.Parallel()
	db, name := table(t)
	store := dynamostore.New(db, name)
	key := claude.SessionKey{ProjectKey: "p", SessionID: "s"}
	random := make([]byte, 2<<20)
	_, _ = rand.Read(random)
	var want []claude.Entry
	for i, blob := range []any{strings.Repeat("same ", 1<<20), random, random[:500<<10], "small"} {
		e, err := json.Marshal(map[string]any{"uuid": fmt.Sprint(i), "blob": blob})
		require.NoError(t, err)
		want = append(want, e)
	}
	require.NoError(t, store.Append(t.Context(), key, want))
	got, err := dynamostore.New(db, name).Load(t.Context(), key)
	require.NoError(t, err)
	require.Equal(t, len(want), len(got))
	for i := range want {
		require.Equal(t, string(want[i]), string(got[i]), "entry %d", i)
	}
	require.NoError(t, store.DeleteSession(t.Context(), key))
	left, err := db.Scan(t.Context(), &dynamodb.ScanInput{TableName: &name})
	require.NoError(t, err)
	require.Empty(t, left.Items, "parts go with the session")
}

// Spec: DynamoDB store
func TestPagesOfAnySize(t *testing.T) {
	t.Parallel()
	db, name := table(t)
	store := dynamostore.New(db, name)
	key := claude.SessionKey{ProjectKey: "p", SessionID: "s"}
	random := make([]byte, 150<<10)
	const n = 15 // two megabytes, more than one page holds
	for i := range n {
		_, _ = rand.Read(random)
		e, err := json.Marshal(map[string]any{"n": i, "blob": random})
		require.NoError(t, err)
		require.NoError(t, store.Append(t.Context(), key, []claude.Entry{e}))
	}
	got, err := dynamostore.New(db, name).Load(t.Context(), key)
	require.NoError(t, err)
	require.Len(t, got, n)
}

// Spec: DynamoDB store
func TestAppendRefusesWhatIsNotJSON(t *testing.T) {
	t.Parallel()
	db, name := table(t)
	err := dynamostore.New(db, name).Append(t.Context(), claude.SessionKey{ProjectKey: "p", SessionID: "s"}, []claude.Entry{claude.Entry("{")})
	require.ErrorContains(t, err, "entry 0 is not JSON")
}
