package apigateway_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lambae/lambae/internal/session"
	"github.com/lambae/lambae/internal/table"
	"github.com/lambae/lambae/internal/table/dynamo"
	"github.com/lambae/lambae/internal/table/tabletest/ministack"
)

// The items of connections are what DynamoDB takes, and go away by themselves.
func TestConnectionsInDynamoDB(t *testing.T) {
	t.Parallel()
	client, name := ministack.Client(ministack.Endpoint(t)), ministack.TableName()
	require.NoError(t, dynamo.CreateTable(t.Context(), client, name))
	tbl, err := dynamo.Open(client, name, nil)
	require.NoError(t, err)
	w := newWorldOn(t, tbl, func(func(table.Key)) {})
	p, other := w.process(t), w.process(t)
	id := p.subscribe(t, never)
	w.append(2)
	record := streamRecord("INSERT", table.Key{PK: "S#" + w.session, SK: "L#000000000001"}, "1")
	require.Empty(t, other.stream(t, record))
	require.Empty(t, p.stream(t, record))
	require.Equal(t, ids(t, w.log), w.gateway.Events(id))
	for _, pk := range []string{"WC#" + id, "WS#" + w.session} {
		for it, err := range tbl.Query(t.Context(), table.Range{PK: pk}) {
			require.NoError(t, err)
			require.WithinDuration(t, time.Now().Add(3*time.Hour), it.Expires, time.Minute, "longer than the gateway keeps a connection")
		}
	}
	require.NoError(t, w.log.Close(t.Context(), w.client.ID))
	require.Empty(t, p.stream(t, record))
	require.True(t, w.gateway.Closed(id))
	require.False(t, w.known(t, id))
	_, err = p.Pusher.Store.Connection(t.Context(), id)
	require.ErrorIs(t, err, session.ErrNoConnection)
}
