//go:build claude

package conformance

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidwall/gjson"
)

// model is a mock of the Messages API. The newest user text that is a script
// says what it answers: {"steps":[…]}, of which the n-th call after that text
// gets step n. Any other text is answered "ok: <text>".
type model struct {
	*httptest.Server

	mu    sync.Mutex
	calls []call
	gate  chan struct{} // a step with "wait" holds its answer until this closes
}

type call struct {
	model    string
	main     bool // of the conversation, as against titles and the like
	body     string
	withdraw <-chan struct{} // closed when the caller hung up
}

type step struct {
	Text string          `json:"text,omitempty"`
	Tool string          `json:"tool,omitempty"`
	In   json.RawMessage `json:"in,omitempty"`
	Wait bool            `json:"wait,omitempty"`
}

func script(steps ...step) string {
	b, _ := json.Marshal(map[string]any{"steps": steps})
	return string(b)
}

func newModel(t testing.TB) *model {
	m := &model{gate: make(chan struct{})}
	m.Server = httptest.NewServer(http.HandlerFunc(m.serve))
	t.Cleanup(func() {
		m.open()
		m.Server.Close()
	})
	return m
}

func (m *model) open() {
	m.mu.Lock()
	defer m.mu.Unlock()
	select {
	case <-m.gate:
	default:
		close(m.gate)
	}
}

// mainCalls returns the calls of conversations so far.
func (m *model) mainCalls() []call {
	m.mu.Lock()
	defer m.mu.Unlock()
	var calls []call
	for _, c := range m.calls {
		if c.main {
			calls = append(calls, c)
		}
	}
	return calls
}

func (m *model) serve(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	if !strings.HasSuffix(r.URL.Path, "/messages") {
		http.Error(w, `{"type":"error","error":{"type":"not_found_error","message":"mock"}}`, http.StatusNotFound)
		return
	}
	req := gjson.ParseBytes(body)
	c := call{model: req.Get("model").Str, main: len(req.Get("tools").Array()) > 0, body: string(body), withdraw: r.Context().Done()}
	m.mu.Lock()
	m.calls = append(m.calls, c)
	m.mu.Unlock()
	s := pick(req)
	if s.Wait {
		select {
		case <-m.gate:
		case <-r.Context().Done():
			return
		case <-time.After(20 * time.Second):
		}
	}
	answer(w, req, s, len(m.mainCalls()))
}

func pick(req gjson.Result) step {
	messages := req.Get("messages").Array()
	for i, n := len(messages)-1, 0; i >= 0; i-- {
		if messages[i].Get("role").Str == "assistant" {
			n++
			continue
		}
		text := ""
		for _, t := range texts(messages[i].Get("content")) {
			if !strings.HasPrefix(strings.TrimSpace(t), "<system-reminder>") {
				text = t
			}
		}
		if text == "" {
			continue
		}
		var s struct{ Steps []step }
		if json.Unmarshal([]byte(text), &s) != nil || len(s.Steps) == 0 {
			return step{Text: "ok: " + text}
		}
		return s.Steps[min(n, len(s.Steps)-1)]
	}
	return step{Text: "nothing was said"}
}

func texts(content gjson.Result) []string {
	if content.Type == gjson.String {
		return []string{content.Str}
	}
	var all []string
	for _, b := range content.Array() {
		if b.Get("type").Str == "text" {
			all = append(all, b.Get("text").Str)
		}
	}
	return all
}

func answer(w http.ResponseWriter, req gjson.Result, s step, n int) {
	block, delta, reason := map[string]any{"type": "text", "text": ""}, map[string]any{"type": "text_delta", "text": s.Text}, "end_turn"
	whole := map[string]any{"type": "text", "text": s.Text}
	if s.Tool != "" {
		in := s.In
		if in == nil {
			in = json.RawMessage("{}")
		}
		id := fmt.Sprintf("toolu_%d", n)
		block = map[string]any{"type": "tool_use", "id": id, "name": s.Tool, "input": map[string]any{}}
		whole = map[string]any{"type": "tool_use", "id": id, "name": s.Tool, "input": in}
		delta, reason = map[string]any{"type": "input_json_delta", "partial_json": string(in)}, "tool_use"
	}
	usage := map[string]any{"input_tokens": 10, "output_tokens": 5}
	message := map[string]any{"id": fmt.Sprintf("msg_%d", n), "type": "message", "role": "assistant",
		"model": req.Get("model").Str, "content": []any{}, "stop_reason": nil, "stop_sequence": nil, "usage": usage}
	if !req.Get("stream").Bool() {
		message["content"], message["stop_reason"] = []any{whole}, reason
		w.Header().Set("content-type", "application/json")
		_ = json.NewEncoder(w).Encode(message)
		return
	}
	w.Header().Set("content-type", "text/event-stream")
	event := func(kind string, body map[string]any) {
		body["type"] = kind
		b, _ := json.Marshal(body)
		fmt.Fprintf(w, "event: %s\ndata: %s\n\n", kind, b)
		_ = http.NewResponseController(w).Flush()
	}
	event("message_start", map[string]any{"message": message})
	event("content_block_start", map[string]any{"index": 0, "content_block": block})
	event("content_block_delta", map[string]any{"index": 0, "delta": delta})
	event("content_block_stop", map[string]any{"index": 0})
	event("message_delta", map[string]any{"delta": map[string]any{"stop_reason": reason, "stop_sequence": nil}, "usage": usage})
	event("message_stop", map[string]any{})
}
