package apigateway_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/stretchr/testify/require"

	"github.com/lambae/lambae/internal/push/apigateway"
	"github.com/lambae/lambae/internal/push/pushtest"
	"github.com/lambae/lambae/internal/session"
	"github.com/lambae/lambae/internal/table"
)

const never = "evt_00000000000000000000000000000000"

// world is a table, a gateway before it, and a session of a client.
type world struct {
	t       testing.TB
	table   table.Table
	gateway *pushtest.Gateway
	cfg     aws.Config
	logger  *slog.Logger

	directory *session.Directory
	client    session.ClientKey
	session   string
	key       string // of the session
	log       *session.Log

	mu      sync.Mutex
	records []json.RawMessage // what the table's stream holds
	conns   atomic.Int64
}

func newWorld(t testing.TB) *world {
	memory := new(pushtest.Memory)
	w := newWorldOn(t, memory, func(streamed func(table.Key)) { memory.Inserted = streamed })
	return w
}

// newWorldOn makes a world of a table; stream says whom the table is to tell of
// new items.
func newWorldOn(t testing.TB, tbl table.Table, stream func(func(table.Key))) *world {
	w := &world{t: t, table: tbl, gateway: pushtest.NewGateway(t), logger: slog.New(slog.DiscardHandler),
		cfg: aws.Config{Region: "eu-west-1", Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "id", SecretAccessKey: "secret"}, nil
		})}}
	stream(w.streamed)
	w.directory = session.NewDirectory(tbl, time.Now)
	p, err := w.directory.CreateProfile(t.Context(), session.Profile{Name: session.NewID("p"), PrimaryProvider: "echo"})
	require.NoError(t, err)
	w.client, _, err = w.directory.CreateClientKey(t.Context(), "k", p.ID)
	require.NoError(t, err)
	w.session, w.key, w.log = w.open(t)
	return w
}

// open opens a session of the client.
func (w *world) open(t testing.TB) (id, key string, log *session.Log) {
	id, key = session.NewID(session.SessionPrefix), session.NewSecret(session.SessionSecretPrefix)
	log, release, err := session.NewStore(w.table, nil).Open(context.Background(), session.Opening{
		ID: id, Key: w.client.ID, SecretHash: session.HashSecret(key), ProfileID: w.client.ProfileID, Created: time.Now()})
	require.NoError(t, err)
	w.t.Cleanup(release)
	require.NoError(t, w.directory.NoteSession(context.Background(), w.client.ID, id))
	return id, key, log
}

// streamed notes the stream record of a new item.
func (w *world) streamed(k table.Key) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.records = append(w.records, streamRecord("INSERT", k, fmt.Sprint(1000+len(w.records))))
}

func streamRecord(name string, k table.Key, sequence string) json.RawMessage {
	return fmt.Appendf(nil, `{"eventID":"x","eventName":%q,"eventSource":"aws:dynamodb","dynamodb":{"Keys":{"pk":{"S":%q},"sk":{"S":%q}},"NewImage":{"b":{"B":"AA=="}},"SequenceNumber":%q,"StreamViewType":"NEW_IMAGE"}}`,
		name, k.PK, k.SK, sequence)
}

// take returns the stream's records since the last take.
func (w *world) take() (out []json.RawMessage) {
	w.mu.Lock()
	defer w.mu.Unlock()
	out, w.records = w.records, nil
	return out
}

// process is one warm instance of each function.
type process struct {
	*apigateway.Handler
	consumer *apigateway.Consumer
	world    *world
}

func (w *world) process(t require.TestingT) *process {
	gateway, err := apigateway.NewGateway(w.cfg, w.gateway.URL)
	require.NoError(t, err)
	pusher := &apigateway.Pusher{Store: session.NewStore(w.table, &session.Options{Logger: w.logger}), Gateway: gateway, Logger: w.logger}
	return &process{&apigateway.Handler{Pusher: pusher, Directory: w.directory, Logger: w.logger},
		&apigateway.Consumer{Pusher: pusher, Logger: w.logger}, w}
}

func event(kind, id string) events.APIGatewayWebsocketProxyRequest {
	return events.APIGatewayWebsocketProxyRequest{RequestContext: events.APIGatewayWebsocketProxyRequestContext{EventType: kind, ConnectionID: id}}
}

// connect opens a connection to the session.
func (p *process) connect(t require.TestingT, session, key string) (id string) {
	// Ids of the real gateway end like this.
	id = fmt.Sprintf("L0SM9c+%d/vHcCIhw=", p.world.conns.Add(1))
	r := event("CONNECT", id)
	r.Headers = map[string]string{"Authorization": "Bearer " + key}
	r.QueryStringParameters = map[string]string{"session": session}
	answer, err := p.Handle(context.Background(), r)
	require.NoError(t, err)
	require.Equal(t, 200, answer.StatusCode, answer.Body)
	return id
}

// say sends a frame of a connection's client.
func (p *process) say(t require.TestingT, id, frame string) {
	r := event("MESSAGE", id)
	r.Body = frame
	_, err := p.Handle(context.Background(), r)
	require.NoError(t, err)
}

// subscribe opens a connection to the world's session that follows it.
func (p *process) subscribe(t require.TestingT, since string) (id string) {
	id = p.connect(t, p.world.session, p.world.key)
	p.say(t, id, subscribeFrame(since))
	return id
}

func subscribeFrame(since string) string {
	if since == "" {
		return `{"jsonrpc":"2.0","id":1,"method":"session.subscribe"}`
	}
	return `{"jsonrpc":"2.0","id":1,"method":"session.subscribe","params":{"since_event_id":"` + since + `"}}`
}

const pingFrame = `{"jsonrpc":"2.0","method":"session.ping"}`

// stream hands a batch to the consumer and returns the sequence numbers it reports.
func (p *process) stream(t require.TestingT, records ...json.RawMessage) (failed []string) {
	answer, err := p.consumer.Handle(context.Background(), apigateway.StreamEvent{Records: records})
	require.NoError(t, err)
	for _, f := range answer.BatchItemFailures {
		failed = append(failed, f.ItemIdentifier)
	}
	return failed
}

// append adds a chunk of n events.
func appendTo(t require.TestingT, l *session.Log, n int, payload string) {
	_, err := l.Append(context.Background(), func(s *session.State) (session.Draft, error) {
		if !s.Open() {
			return session.Draft{}, session.NotOpen(s.Status)
		}
		entries := make([]session.Entry, n)
		for i := range entries {
			entries[i] = session.Entry{Type: session.SandboxRunning, Key: "key", Payload: json.RawMessage(payload)}
		}
		if n == 0 {
			entries = []session.Entry{{Type: session.MarkTools, Key: "key", Payload: json.RawMessage(`[]`)}}
		}
		return session.Draft{Entries: entries}, nil
	})
	require.NoError(t, err)
}

func (w *world) append(n int) { appendTo(w.t, w.log, n, `{}`) }

// ids are the ids of all events of a session by now.
func ids(t require.TestingT, l *session.Log) (all []string) {
	require.NoError(t, l.Refresh(context.Background()))
	cursor := ""
	for {
		page, next, err := l.Events(context.Background(), cursor, 200)
		require.NoError(t, err)
		for _, e := range page {
			all = append(all, e.ID)
		}
		if next == nil {
			return all
		}
		cursor = *next
	}
}

// known reports whether the table has items of a connection.
func (w *world) known(t require.TestingT, id string) bool {
	for _, pk := range []string{"WC#" + id, "WS#" + w.session} {
		for it, err := range w.table.Query(context.Background(), table.Range{PK: pk}) {
			require.NoError(t, err)
			if pk == "WC#"+id || strings.HasSuffix(it.SK, id) {
				return true
			}
		}
	}
	return false
}
