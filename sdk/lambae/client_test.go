package lambae_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lambae/lambae/sdk/lambae"
	"github.com/lambae/lambae/sdk/lambae/lambaetest"
)

// start runs a server that allows the tools a and b.
func start(t *testing.T, options lambaetest.Options) *lambaetest.Server {
	options.AllowedTools = append(options.AllowedTools, "a", "b")
	server := lambaetest.New(options)
	t.Cleanup(server.Close)
	return server
}

// open opens a session as a registered driver.
func open(t *testing.T, server *lambaetest.Server, tools ...lambae.Tool) *lambae.Session {
	session, err := server.Client().Open(t.Context(), &lambae.OpenRequest{ClientVersion: "kit/1", Tools: tools})
	require.NoError(t, err)
	require.NoError(t, session.RegisterDriver(t.Context()))
	return session
}

// answering is a client of a server that answers every request the same way.
func answering(t *testing.T, handle http.HandlerFunc) *lambae.Client {
	server := httptest.NewServer(handle)
	t.Cleanup(server.Close)
	client, err := lambae.New(server.URL, "bae_k", &lambae.Options{Backoff: func(int) time.Duration { return 0 }})
	require.NoError(t, err)
	return client
}

func types(events []lambae.Event) []lambae.EventType {
	types := []lambae.EventType{}
	for _, event := range events {
		types = append(types, event.Type)
	}
	return types
}

func all(t *testing.T, session *lambae.Session) []lambae.Event {
	var events []lambae.Event
	for event, err := range session.Events(t.Context()) {
		require.NoError(t, err)
		events = append(events, event)
	}
	return events
}

func TestOpenJoinAndClose(t *testing.T) {
	t.Parallel()
	server := start(t, lambaetest.Options{})
	client := server.Client()
	require.NoError(t, client.Healthz(t.Context()))
	meta, err := client.Meta(t.Context())
	require.NoError(t, err)
	require.Equal(t, &lambae.Meta{Version: "0.1.0", APIVersions: []string{"v1"}}, meta)

	session := open(t, server, lambae.Tool{Name: "a"})
	require.Equal(t, "main", session.Profile.Name)
	require.Equal(t, []string{"a", "b"}, session.Profile.AllowedTools)
	require.Equal(t, "mock", session.Profile.Provider.Model)

	keyID, key := server.NewClientKey("other")
	second, err := lambae.New(server.URL, key, nil)
	require.NoError(t, err)
	joined, err := second.Join(t.Context(), session.ID, nil)
	require.NoError(t, err)
	require.NotEqual(t, session.Key, joined.Key)
	require.NoError(t, joined.RegisterDriver(t.Context()))
	drivers, err := session.Participants(t.Context())
	require.NoError(t, err)
	require.Len(t, drivers, 2)
	require.Contains(t, drivers, keyID)

	require.NoError(t, joined.Close(t.Context()))
	problem := refusal(t, session.Close(t.Context()))
	require.Equal(t, lambae.TypeSessionClosed, problem.Type)
	require.Equal(t, "session is already closed", problem.Detail)

	back, err := client.Session(session.ID, session.Key)
	require.NoError(t, err)
	require.Equal(t, []lambae.EventType{
		lambae.EventSessionOpen, lambae.EventDriverRegister, lambae.EventSessionJoin, lambae.EventDriverRegister, lambae.EventSessionClose,
	}, types(all(t, back)))
}

func refusal(t *testing.T, err error) *lambae.APIError {
	var problem *lambae.APIError
	require.ErrorAs(t, err, &problem)
	return problem
}

func TestRefusalsAreProblemDocuments(t *testing.T) {
	t.Parallel()
	server := start(t, lambaetest.Options{})
	client := server.Client()
	stranger, err := lambae.New(server.URL, "bae_wrong", nil)
	require.NoError(t, err)
	session := open(t, server)
	lost, err := client.Session(session.ID, "bae_ses_wrong")
	require.NoError(t, err)
	nobody, err := lambae.New(server.URL, "", nil)
	require.NoError(t, err)
	for name, test := range map[string]struct {
		do     func(ctx context.Context) error
		status int
		kind   string
		detail string
	}{
		"a wrong client key": {func(ctx context.Context) error { _, err := stranger.Open(ctx, nil); return err },
			401, lambae.TypeUnauthorized, "invalid client key"},
		"no client key": {func(ctx context.Context) error { _, err := nobody.Open(ctx, nil); return err },
			401, lambae.TypeUnauthorized, "missing Authorization header"},
		"a wrong session key on REST": {func(ctx context.Context) error { _, err := lost.Participants(ctx); return err },
			401, lambae.TypeUnauthorized, "invalid session key"},
		"a wrong session key on rpc": {func(ctx context.Context) error { return lost.RegisterDriver(ctx) },
			401, lambae.TypeUnauthorized, "invalid session key"},
		"a session that is not there": {func(ctx context.Context) error { _, err := client.Join(ctx, "ses_none", nil); return err },
			404, lambae.TypeNotFound, "no session ses_none"},
		"a tool that is not allowed": {func(ctx context.Context) error {
			_, err := client.Open(ctx, &lambae.OpenRequest{Tools: []lambae.Tool{{Name: "c"}}})
			return err
		}, 403, lambae.TypeToolNotAllowed, `tool "c" is not in the profile's allowlist`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			problem := refusal(t, test.do(t.Context()))
			require.Equal(t, &lambae.APIError{Type: test.kind, Title: http.StatusText(test.status), Status: test.status, Detail: test.detail}, problem)
		})
	}
}

func TestAnyErrorAnswerIsReadable(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		status      int
		contentType string
		body        string
		want        string
	}{
		"a problem document":        {422, "application/problem+json", `{"type":"profile_unavailable","title":"T","status":422,"detail":"gone"}`, "422 profile_unavailable: gone"},
		"one without a detail":      {500, "application/json", `{"type":"internal"}`, "500 internal"},
		"HTML of a proxy":           {502, "text/html; charset=utf-8", `<html>`, "502 Bad Gateway: the answer is text/html, not a problem document"},
		"JSON of another kind":      {404, "application/json", `{"message":"Not Found"}`, "404 Not Found: the answer is application/json, not a problem document"},
		"an empty body":             {405, "", ``, "405 Method Not Allowed: the answer is nothing readable"},
		"a problem of other status": {409, "application/json", `{"type":"x","status":1}`, "409 x"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := answering(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header()["Content-Type"] = nil
				if test.contentType != "" {
					w.Header().Set("Content-Type", test.contentType)
				}
				w.WriteHeader(test.status)
				_, _ = io.WriteString(w, test.body)
			})
			_, err := client.Meta(t.Context())
			require.Equal(t, test.status, refusal(t, err).Status)
			require.ErrorContains(t, err, "read server version: "+test.want)
		})
	}
}

func TestWhatIsNotASessionIsRefusedUnsent(t *testing.T) {
	t.Parallel()
	client, err := lambae.New("http://127.0.0.1:9", "", nil)
	require.NoError(t, err)
	for _, id := range []string{"", "../x", "ses_a/b", "ses_ü", "ses a"} {
		_, err := client.Join(t.Context(), id, nil)
		require.ErrorContains(t, err, "is not a session id", id)
		_, err = client.Session(id, "bae_ses_k")
		require.ErrorContains(t, err, "is not a session id", id)
	}
	_, err = client.Session("ses_a", "")
	require.ErrorContains(t, err, "session key is needed")
	_, err = lambae.New("127.0.0.1:8080", "", nil)
	require.ErrorContains(t, err, "must look like http://")
}

func TestEventsComePageByPage(t *testing.T) {
	t.Parallel()
	server := start(t, lambaetest.Options{})
	session := open(t, server)
	for range 250 {
		require.NoError(t, session.ReportLocalSandbox(t.Context(), lambae.LocalSandbox{State: lambae.SandboxRunning, Image: "i"}))
	}
	events := all(t, session)
	require.Len(t, events, 252)
	page, err := session.EventsPage(t.Context(), "", 0)
	require.NoError(t, err)
	require.Len(t, page.Items, 50)
	require.Equal(t, events[49].ID, page.Items[49].ID)
	page, err = session.EventsPage(t.Context(), page.NextCursor, 1000)
	require.NoError(t, err)
	require.Len(t, page.Items, 200, "the server cuts the limit")

	for event, err := range session.Events(t.Context()) {
		require.NoError(t, err)
		require.Equal(t, events[0].ID, event.ID)
		break // a reader may stop
	}
	_, err = session.EventsPage(t.Context(), "zzz", 0)
	require.Equal(t, lambae.TypeBadRequest, refusal(t, err).Type)
}

func TestAPageThatLeadsToItselfEndsTheList(t *testing.T) {
	t.Parallel()
	client := answering(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"items":[],"next_cursor":"7"}`)
	})
	session, err := client.Session("ses_a", "bae_ses_k")
	require.NoError(t, err)
	var last error
	for _, err := range session.Events(t.Context()) {
		last = err
	}
	require.ErrorContains(t, last, "same page again")
}

// recorder keeps the requests it answers.
type recorder struct {
	mu       sync.Mutex
	bodies   []string
	headers  []http.Header
	response string
}

func (r *recorder) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	body, _ := io.ReadAll(request.Body)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.bodies = append(r.bodies, string(body))
	r.headers = append(r.headers, request.Header)
	_, _ = io.WriteString(w, r.response)
}

func TestOpenSaysWhatTheClientHas(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		request *lambae.OpenRequest
		want    string
	}{
		"nothing, with the list of tools all the same": {nil, `{"tools":[]}`},
		"all it can": {&lambae.OpenRequest{
			ClientVersion: "1",
			Tools:         []lambae.Tool{{Name: "a", Description: "<d>", InputSchema: json.RawMessage(`{"type": "object"}`)}},
			SandboxTools:  []lambae.Tool{{Name: "sh"}},
			SubagentTools: []lambae.SubagentTool{{Tool: lambae.Tool{Name: "l"}, Image: "i", Subagents: []lambae.Subagent{{Harness: "h", CommandTemplate: "c", TimeoutSecs: 9}}}},
		}, `{"client_version":"1","tools":[{"name":"a","description":"<d>","input_schema":{"type":"object"}}],"sandbox_tools":[{"name":"sh"}],` +
			`"subagent_tools":[{"name":"l","image":"i","subagents":[{"harness":"h","command_template":"c","timeout_secs":9}]}]}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			record := &recorder{response: `{"session_id":"ses_a","session_key":"bae_ses_k","profile":{}}`}
			_, err := answering(t, record.ServeHTTP).Open(t.Context(), test.request)
			require.NoError(t, err)
			require.Equal(t, []string{test.want}, record.bodies)
			require.Len(t, record.headers[0].Get("Idempotency-Key"), 26)
		})
	}
}

func TestMessagesArriveByteForByte(t *testing.T) {
	t.Parallel()
	record := &recorder{response: `{"jsonrpc":"2.0","id":1,"result":{"message":{"role":"assistant","content":[]},"events":[]}}`}
	session, err := answering(t, record.ServeHTTP).Session("ses_a", "bae_ses_k")
	require.NoError(t, err)
	raw := `[ {"type":"new", "sig":"\u003ca==", "n":1.50, "z":1, "a":2} ]`
	content, err := lambae.RawContent([]byte(raw))
	require.NoError(t, err)
	for _, err := range session.Send(t.Context(), lambae.Message{Content: content}, &lambae.SendOptions{Stream: true, IdempotencyKey: "mine"}) {
		require.NoError(t, err)
	}
	require.Equal(t, []string{
		`{"jsonrpc":"2.0","id":1,"method":"session.sendMessage","params":{"message":{"role":"user","content":` + raw + `},"stream":true}}`,
	}, record.bodies)
	require.Equal(t, "mine", record.headers[0].Get("Idempotency-Key"))
	require.Equal(t, "Bearer bae_ses_k", record.headers[0].Get("Authorization"))
}

func TestEventsKeepTheirJSON(t *testing.T) {
	t.Parallel()
	raw := `{"new":1,"id":"evt_1","session_id":"ses_1","client_key_id":null,"event_type":"x.y","payload":{"b": 1.0},"created_at":"2026-07-06T18:26:10.000Z"}`
	var event lambae.Event
	require.NoError(t, json.Unmarshal([]byte(raw), &event))
	require.Equal(t, raw, string(event.Raw()))
	require.Equal(t, `{"b": 1.0}`, string(event.Payload))
	require.Empty(t, event.ClientKeyID)
	require.Equal(t, time.Date(2026, 7, 6, 18, 26, 10, 0, time.UTC), event.CreatedAt)
	payload, err := event.Decode()
	require.NoError(t, err)
	require.Equal(t, json.RawMessage(`{"b": 1.0}`), payload)

	encoded, err := json.Marshal(event)
	require.NoError(t, err)
	var compact bytes.Buffer
	require.NoError(t, json.Compact(&compact, []byte(raw)))
	require.Equal(t, compact.String(), string(encoded))

	made := lambae.Event{ID: "evt_2", Type: lambae.EventToolCall, Payload: json.RawMessage(`{}`), CreatedAt: event.CreatedAt}
	require.Equal(t, `{"id":"evt_2","session_id":"","client_key_id":"","event_type":"tool.call","payload":{},"created_at":"2026-07-06T18:26:10.000Z"}`,
		string(made.Raw()))
}
