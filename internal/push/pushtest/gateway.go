package pushtest

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
)

// Gateway plays the management API of API Gateway: connections get what is posted
// to them. Unlike the real one it takes any connection id that was not closed.
type Gateway struct {
	// URL is the endpoint, with a stage in its path as the real one has.
	URL string
	// Posting, when set, may answer a post itself by returning a status, or hold it
	// until the request's context ends. It is called concurrently.
	Posting func(r *http.Request, connection string) (status int)

	t      testing.TB
	mu     sync.Mutex
	got    map[string][]Message
	closed map[string]bool
	posts  int
}

// Message is a message of the server, or its close frame.
type Message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
	Params struct {
		ID      string          `json:"id"`
		Payload json.RawMessage `json:"payload"`
		Omitted bool            `json:"payload_omitted"`
		Reason  string          `json:"reason"`
	} `json:"params"`
	Raw string `json:"-"`
}

// NewGateway starts a gateway that lasts as long as the test.
func NewGateway(t testing.TB) *Gateway {
	g := &Gateway{t: t, got: map[string][]Message{}, closed: map[string]bool{}}
	server := httptest.NewServer(g)
	t.Cleanup(server.Close)
	g.URL = server.URL + "/stage"
	return g
}

func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	id, ok := strings.CutPrefix(r.URL.Path, "/stage/@connections/")
	assert.True(g.t, ok && id != "", r.URL.Path)
	assert.Contains(g.t, r.Header.Get("Authorization"), "/execute-api/aws4_request", "requests are signed for the API")
	if r.Method == http.MethodDelete {
		g.delete(w, id)
		return
	}
	assert.Equal(g.t, http.MethodPost, r.Method)
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	if g.Posting != nil {
		if status := g.Posting(r, id); status != 0 {
			fail(w, status)
			return
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed[id] {
		fail(w, http.StatusGone)
		return
	}
	m := Message{Raw: string(body)}
	assert.LessOrEqual(g.t, len(body), 128<<10, "the gateway takes no longer message")
	assert.NoError(g.t, json.Unmarshal(body, &m), "%s", body)
	g.got[id] = append(g.got[id], m)
	g.posts++
}

func (g *Gateway) delete(w http.ResponseWriter, id string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed[id] {
		fail(w, http.StatusGone)
		return
	}
	g.closed[id] = true
	w.WriteHeader(http.StatusNoContent)
}

// fail answers in the form of the service.
func fail(w http.ResponseWriter, status int) {
	kind := map[int]string{http.StatusGone: "GoneException", http.StatusForbidden: "ForbiddenException",
		http.StatusTooManyRequests: "LimitExceededException"}[status]
	if kind == "" {
		kind = "InternalServerErrorException"
	}
	w.Header().Set("X-Amzn-ErrorType", kind)
	w.WriteHeader(status)
	_, _ = io.WriteString(w, `{"message":"refused by the test"}`)
}

// HangUp is what a client does that goes away.
func (g *Gateway) HangUp(id string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed[id] = true
}

// Closed reports whether a connection was closed, by either side.
func (g *Gateway) Closed(id string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.closed[id]
}

// Messages are all messages that a connection got so far.
func (g *Gateway) Messages(id string) []Message {
	g.mu.Lock()
	defer g.mu.Unlock()
	return append([]Message(nil), g.got[id]...)
}

// Events are the ids of the events among them, in the order they came.
func (g *Gateway) Events(id string) (ids []string) {
	for _, m := range g.Messages(id) {
		if m.Method == "session.event" {
			ids = append(ids, m.Params.ID)
		}
	}
	return ids
}

// Posts is how many messages were taken for all connections.
func (g *Gateway) Posts() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.posts
}

// First leaves the first of each id: what a client shows that drops those it
// knows.
func First(ids []string) (out []string) {
	seen := map[string]bool{}
	for _, id := range ids {
		if !seen[id] {
			seen[id] = true
			out = append(out, id)
		}
	}
	return out
}
