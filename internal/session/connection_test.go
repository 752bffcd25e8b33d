package session

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lambae/lambae/internal/table"
)

func watchedSession(t testing.TB) (store *Store, log *Log, key string) {
	t.Helper()
	h := newWorld().connect(1, faults{})
	h.exclusive = true
	store, key = NewStore(h, nil), NewID(KeyPrefix)
	log, release, err := store.Open(t.Context(), Opening{ID: NewID(SessionPrefix), Key: key, Created: time.Now()})
	require.NoError(t, err)
	t.Cleanup(release)
	return store, log, key
}

// However close the reader is behind the writer, the last event is read before
// the end is seen.
func TestTheLastEventComesBeforeTheEnd(t *testing.T) {
	t.Parallel()
	for range 300 {
		_, log, key := watchedSession(t)
		s, err := log.Subscriber(t.Context(), key, nil)
		require.NoError(t, err)
		var closing sync.WaitGroup
		closing.Go(func() { _ = log.Close(context.Background(), key) })
		var got []Rendered
		for s.Ended == "" {
			_, more := log.Changed()
			page, err := log.Read(t.Context(), &s)
			require.NoError(t, err)
			if got = append(got, page...); len(page) == 0 && s.Ended == "" {
				<-more
			}
		}
		closing.Wait()
		require.Len(t, got, 1)
		require.Equal(t, SessionClose, got[0].Type)
		require.Equal(t, EndClosed, s.Ended)
	}
}

func TestASubscriberThatCannotReadHasNotMoved(t *testing.T) {
	t.Parallel()
	w := newWorld()
	store := NewStore(w.connect(1, faults{}), nil)
	key := NewID(KeyPrefix)
	writer, release, err := store.Open(t.Context(), Opening{ID: NewID(SessionPrefix), Key: key, Created: time.Now()})
	require.NoError(t, err)
	defer release()
	for range maxRecent + 10 { // so far back that the table must be read
		_, err := writer.Append(t.Context(), func(*State) (Draft, error) {
			return Draft{Entries: []Entry{{Type: SandboxRunning, Key: key, Payload: json.RawMessage(`{}`)}}}, nil
		})
		require.NoError(t, err)
	}
	s := Subscriber{Key: key}
	ctx, handle := t.Context(), writer.store.table.(*handle)
	handle.kill()
	_, err = writer.Read(ctx, &s)
	require.ErrorIs(t, err, errNetwork)
	require.Equal(t, Subscriber{Key: key}, s)
}

func TestOnlyAnUnsubscribeAfterTheStartEnds(t *testing.T) {
	t.Parallel()
	_, log, key := watchedSession(t)
	before, err := log.Subscriber(t.Context(), key, nil)
	require.NoError(t, err)
	require.NoError(t, log.Unsubscribe(t.Context(), key))
	after, err := log.Subscriber(t.Context(), key, new(EventID(0, 99, strings.Repeat("0", 20)))) // unknown: from the start
	require.NoError(t, err)
	page, err := log.Read(t.Context(), &before)
	require.NoError(t, err)
	require.Empty(t, page)
	require.Equal(t, EndUnsubscribed, before.Ended)
	page, err = log.Read(t.Context(), &after)
	require.NoError(t, err)
	require.Len(t, page, 1)
	require.Empty(t, after.Ended)
}

func TestAnEventWithoutItsPayload(t *testing.T) {
	t.Parallel()
	_, log, _ := watchedSession(t)
	odd := `a"payload":"b\` + "\u2028"
	_, err := log.Append(t.Context(), func(*State) (Draft, error) {
		return Draft{Entries: []Entry{{Type: SandboxRunning, Key: odd, Payload: json.RawMessage(`{"payload":{"created_at":"x"}}`)}}}, nil
	})
	require.NoError(t, err)
	page, _, err := log.Events(t.Context(), "", 10)
	require.NoError(t, err)
	var whole, short map[string]any
	require.NoError(t, json.Unmarshal(page[1].JSON(), &whole))
	require.NoError(t, json.Unmarshal(page[1].WithoutPayload(), &short), string(page[1].WithoutPayload()))
	whole["payload"], whole["payload_omitted"] = nil, true
	require.Equal(t, whole, short)
}

func TestWhoseChunkAKeyNames(t *testing.T) {
	t.Parallel()
	id := NewID(SessionPrefix)
	for name, c := range map[string]struct {
		key  table.Key
		want string
	}{
		"a chunk":             {table.Key{PK: "S#" + id, SK: "L#000000000001"}, id},
		"a snapshot":          {table.Key{PK: "S#" + id, SK: "SNAP"}, ""},
		"a connection":        {table.Key{PK: "WS#" + id, SK: "L#x"}, ""},
		"no id":               {table.Key{PK: "S#x", SK: "L#000000000001"}, ""},
		"a list":              {table.Key{PK: "L#sessions", SK: "L#1"}, ""},
		"another kind's list": {table.Key{PK: "S#" + NewID(KeyPrefix), SK: "L#1"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, ok := ChunkOwner(c.key)
			require.Equal(t, c.want, got)
			require.Equal(t, c.want != "", ok)
		})
	}
}

func TestTwoProcessesMoveAConnectionOneAtATime(t *testing.T) {
	t.Parallel()
	store, log, key := watchedSession(t)
	require.NoError(t, store.AddConnection(t.Context(), "c/1=", log.ID, key))
	mine, err := store.Connection(t.Context(), "c/1=")
	require.NoError(t, err)
	require.Nil(t, mine.Subscriber)
	theirs, err := store.Connection(t.Context(), "c/1=")
	require.NoError(t, err)
	mine.Subscriber = &Subscriber{Key: key, Start: 1, Chunk: 1}
	require.NoError(t, store.SaveConnection(t.Context(), mine))
	require.ErrorIs(t, store.SaveConnection(t.Context(), theirs), table.ErrCondition)
	mine.Subscriber.Index = 2
	require.NoError(t, store.SaveConnection(t.Context(), mine), "who wrote last knows the version")
	theirs, err = store.Connection(t.Context(), "c/1=")
	require.NoError(t, err)
	require.Equal(t, mine, theirs)

	require.NoError(t, store.DropConnection(t.Context(), mine))
	require.ErrorIs(t, store.SaveConnection(t.Context(), theirs), table.ErrCondition, "a dropped one does not come back")
	_, err = store.Connection(t.Context(), "c/1=")
	require.ErrorIs(t, err, ErrNoConnection)
}

func TestADamagedConnectionHidesNoOther(t *testing.T) {
	t.Parallel()
	store, log, key := watchedSession(t)
	for _, id := range []string{"a", "b", "c"} {
		require.NoError(t, store.AddConnection(t.Context(), id, log.ID, key))
	}
	_, err := store.Table().Put(t.Context(), table.Op{Key: table.Key{PK: sessionConnectionsPK(log.ID), SK: "b"}, Body: []byte(`{`)})
	require.NoError(t, err)
	var skipped []string
	conns, err := store.Connections(t.Context(), log.ID, func(id string, err error) {
		require.Error(t, err)
		skipped = append(skipped, id)
	})
	require.NoError(t, err)
	require.Equal(t, []string{"b"}, skipped)
	require.Len(t, conns, 2)
	require.Equal(t, "a", conns[0].ID)
	require.Equal(t, "c", conns[1].ID)
	require.Equal(t, log.ID, conns[1].Session)
}

func TestASubscriptionStartsWhereItSays(t *testing.T) {
	t.Parallel()
	_, log, key := watchedSession(t)
	next, _ := log.Changed()
	live, err := log.Subscriber(t.Context(), key, nil)
	require.NoError(t, err)
	require.Equal(t, next, live.Chunk)
	for _, unknown := range []string{"", "evt_0", EventID(0, 99, strings.Repeat("0", 20))} {
		all, err := log.Subscriber(t.Context(), key, &unknown)
		require.NoError(t, err)
		require.Zero(t, all.Chunk, "%q is no event: from the start", unknown)
	}
}
