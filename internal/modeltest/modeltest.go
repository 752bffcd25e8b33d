// Package modeltest plays a model API for tests: the Messages wire format, whole
// and streamed, with answers that the prompt itself scripts.
package modeltest

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
)

// Step is one answer of the model.
type Step struct {
	Text   string            `json:"text,omitempty"`
	Blocks []json.RawMessage `json:"blocks,omitempty"`
	Fail   int               `json:"fail,omitempty"` // answer this status instead
	Wait   string            `json:"wait,omitempty"` // answer after Server.Open(name)
	Millis int               `json:"ms,omitempty"`   // answer after so many milliseconds
}

// Script returns a user text that makes the n-th call after it play step n; the
// last step repeats.
func Script(steps ...Step) string {
	b, _ := json.Marshal(map[string]any{"script": steps})
	return string(b)
}

// ToolUse is a tool_use block.
func ToolUse(id, name, input string) json.RawMessage {
	return json.RawMessage(fmt.Sprintf(`{"type":"tool_use","id":%q,"name":%q,"input":%s}`, id, name, input))
}

// Server is the API. Text without a script is answered "ok: <text>".
type Server struct {
	*httptest.Server

	mu       sync.Mutex
	requests [][]byte
	gates    map[string]chan struct{}
}

// New starts a server that ends with the test.
func New(t testing.TB) *Server {
	s := &Server{gates: map[string]chan struct{}{}}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

// Requests returns the bodies received so far.
func (s *Server) Requests() [][]byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([][]byte(nil), s.requests...)
}

// Open lets the steps that wait for name go on.
func (s *Server) Open(name string) { close(s.gate(name)) }

func (s *Server) gate(name string) chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gates[name] == nil {
		s.gates[name] = make(chan struct{})
	}
	return s.gates[name]
}

type message struct {
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`
}

// ServeHTTP answers POST …/v1/messages.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	s.mu.Lock()
	s.requests = append(s.requests, body)
	s.mu.Unlock()
	var req struct {
		Stream   bool      `json:"stream"`
		Messages []message `json:"messages"`
	}
	if err := json.Unmarshal(body, &req); err != nil || r.URL.Path != "/v1/messages" {
		http.Error(w, `{"error":"not a call of this API"}`, http.StatusBadRequest)
		return
	}
	step := pick(req.Messages)
	if step.Wait != "" {
		select {
		case <-s.gate(step.Wait):
		case <-r.Context().Done():
			return
		}
	}
	if step.Millis > 0 {
		select {
		case <-time.After(time.Duration(step.Millis) * time.Millisecond):
		case <-r.Context().Done():
			return
		}
	}
	if step.Fail != 0 {
		http.Error(w, `{"error":"scripted"}`, step.Fail)
		return
	}
	if step.Blocks == nil {
		step.Blocks = []json.RawMessage{textBlock(step.Text)}
	}
	if req.Stream {
		stream(w, step.Blocks)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer(step.Blocks))
}

// pick plays the script of the newest user text.
func pick(messages []message) Step {
	for i, calls := len(messages)-1, 0; i >= 0; i-- {
		if messages[i].Role == "assistant" {
			calls++
			continue
		}
		text, ok := userText(messages[i].Content)
		if !ok {
			continue
		}
		var v struct {
			Script []Step `json:"script"`
		}
		if json.Unmarshal([]byte(text), &v) != nil || len(v.Script) == 0 {
			return Step{Text: "ok: " + text}
		}
		return v.Script[min(calls, len(v.Script)-1)]
	}
	return Step{Text: "nothing was said"}
}

func userText(content json.RawMessage) (text string, ok bool) {
	if json.Unmarshal(content, &text) == nil {
		return text, true
	}
	var blocks []struct{ Type, Text string }
	_ = json.Unmarshal(content, &blocks)
	for _, b := range blocks {
		if b.Type == "text" {
			text, ok = text+b.Text, true
		}
	}
	return text, ok
}

func textBlock(s string) json.RawMessage {
	b, _ := json.Marshal(map[string]string{"type": "text", "text": s})
	return b
}

func answer(blocks []json.RawMessage) map[string]any {
	reason := "end_turn"
	for _, b := range blocks {
		if strings.Contains(string(b), `"tool_use"`) {
			reason = "tool_use"
		}
	}
	return map[string]any{"id": "msg_1", "type": "message", "role": "assistant", "model": "scripted", "content": blocks,
		"stop_reason": reason, "stop_sequence": nil, "usage": map[string]int{"input_tokens": 10, "output_tokens": 5}}
}

// stream sends text blocks word by word, others whole.
func stream(w http.ResponseWriter, blocks []json.RawMessage) {
	w.Header().Set("Content-Type", "text/event-stream")
	send := func(kind string, v map[string]any) {
		v["type"] = kind
		b, _ := json.Marshal(v)
		fmt.Fprintf(w, "event: %s\ndata: %s\n\n", kind, b)
		_ = http.NewResponseController(w).Flush()
	}
	whole := answer(blocks)
	reason := whole["stop_reason"]
	whole["content"], whole["stop_reason"] = []any{}, nil
	send("message_start", map[string]any{"message": whole})
	for i, raw := range blocks {
		var b map[string]any
		_ = json.Unmarshal(raw, &b)
		switch b["type"] {
		case "text":
			text := b["text"].(string)
			b["text"] = ""
			send("content_block_start", map[string]any{"index": i, "content_block": b})
			for _, word := range strings.SplitAfter(text, " ") {
				send("content_block_delta", map[string]any{"index": i, "delta": map[string]any{"type": "text_delta", "text": word}})
			}
		case "tool_use":
			in, _ := json.Marshal(b["input"])
			b["input"] = map[string]any{}
			send("content_block_start", map[string]any{"index": i, "content_block": b})
			send("content_block_delta", map[string]any{"index": i, "delta": map[string]any{"type": "input_json_delta", "partial_json": string(in)}})
		default:
			send("content_block_start", map[string]any{"index": i, "content_block": b})
		}
		send("content_block_stop", map[string]any{"index": i})
	}
	send("message_delta", map[string]any{"delta": map[string]any{"stop_reason": reason, "stop_sequence": nil}, "usage": map[string]int{"output_tokens": 5}})
	send("message_stop", map[string]any{})
}
