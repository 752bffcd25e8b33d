package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/term"

	"github.com/lambae/lambae/sdk/lambae"
	"github.com/lambae/lambae/sdk/lambae/admin"
)

func event(kind lambae.EventType, payload string) lambae.Event {
	return lambae.Event{ID: "evt_1", ClientKeyID: "key_e5f6a7b8c9d0", Type: kind, Payload: json.RawMessage(payload)}
}

func TestAnAnswerIsShownOnce(t *testing.T) {
	t.Parallel()
	whole := event(lambae.EventServerMessage, `{"role":"assistant","content":"one two"}`)
	call := event(lambae.EventToolCall, `{"id":"t","name":"a","input":{},"dispatch":"client"}`)
	again := event(lambae.EventProviderRequest, `{}`)
	for name, test := range map[string]struct {
		show func(*view)
		want string
	}{
		"when it comes whole":              {func(v *view) { v.own(whole) }, "one two\n"},
		"when it was streamed":             {func(v *view) { v.delta("one "); v.delta("two"); v.own(whole) }, "one two\n"},
		"when its beginning was":           {func(v *view) { v.delta("one"); v.own(whole) }, "one two\n"},
		"when a tool follows the stream":   {func(v *view) { v.delta("one two"); v.own(call); v.own(whole) }, "one two\n  ⚙ a {} (runs here)\n"},
		"when something else was streamed": {func(v *view) { v.delta("other"); v.own(whole) }, "other\none two\n"},
		"when the connection was lost":     {func(v *view) { v.delta("one"); v.endAnswer(); v.delta("one two"); v.own(whole) }, "one\none two\n"},
		"when an answer came before":       {func(v *view) { v.delta("one two"); v.own(again); v.delta("one two"); v.own(whole) }, "one twoone two\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var screen bytes.Buffer
			test.show(&view{style: style{terminal: true}, out: &screen, rest: &screen})
			require.Equal(t, test.want, screen.String())
		})
	}
}

func TestTerminalsAreProtected(t *testing.T) {
	t.Parallel()
	evil := event(lambae.EventServerMessage, `{"role":"assistant","content":"a\u001b]0;title\u0007b\u009b2J"}`)
	var screen, pipe bytes.Buffer
	(&view{style: style{terminal: true}, out: &screen, rest: &screen}).own(evil)
	require.Equal(t, "a\ufffd]0;title\ufffdb\ufffd2J\n", screen.String())
	(&view{out: &pipe, rest: io.Discard}).own(evil)
	require.Equal(t, "a\x1b]0;title\ab\u009b2J\n", pipe.String(), "a pipe gets what the model wrote")
}

func TestColoursAreForTerminalsThatWantThem(t *testing.T) {
	t.Parallel()
	require.Equal(t, "\x1b[31mx\x1b[0m", style{colours: true}.red("x"))
	require.Equal(t, "x", style{terminal: true}.red("x"))
	require.Empty(t, style{colours: true}.red(""))
	world := &app{env: func(string) string { return "" }}
	require.Equal(t, style{}, world.styleFor(&bytes.Buffer{}))
}

func TestTablesAlign(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	require.NoError(t, table(&out, []string{"ID", "NAME"}, [][]string{{"a long one", "é\n"}, {"b", ""}, {"\x1b[31m", "x"}}))
	require.Equal(t, "ID          NAME\na long one  é\nb\n\ufffd[31m       x\n", out.String())
}

func TestOneLine(t *testing.T) {
	t.Parallel()
	require.Equal(t, "a ⏎ b", oneLine(" a\r\nb\n", 0))
	require.Equal(t, "abc…", oneLine("abcdef", 4))
	require.Equal(t, "ééé", oneLine("ééé", 3))
}

func TestAPastedTextIsOneMessage(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ typed, want string }{
		"a line":              {"hello\r", "hello"},
		"a paste of lines":    {"\x1b[200~one\rtwo\x1b[201~\r", "one\ntwo"},
		"a paste with an end": {"\x1b[200~one\r\x1b[201~\r", "one\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			screen := term.NewTerminal(struct {
				io.Reader
				io.Writer
			}{strings.NewReader(test.typed), io.Discard}, "")
			screen.SetBracketedPasteMode(true)
			got, err := readPasted(screen)
			require.NoError(t, err)
			require.Equal(t, test.want, got)
		})
	}
	var shown bytes.Buffer
	screen := term.NewTerminal(struct {
		io.Reader
		io.Writer
	}{strings.NewReader(strings.Repeat("a", 5000) + "\r"), &shown}, "")
	got, err := readPasted(screen)
	require.NoError(t, err)
	require.Len(t, got, longestLine)
	require.Contains(t, shown.String(), "The line was cut at 4096 letters")
}

func TestTheChatsToolsAnswer(t *testing.T) {
	t.Parallel()
	now := func() time.Time { return time.Date(2026, 7, 6, 18, 26, 10, 0, time.UTC) }
	tools := chatTools(now, nil)
	require.Len(t, tools, 1, "nobody is there to ask")
	for input, want := range map[string]string{
		`{}`:                           "2026-07-06T18:26:10Z",
		`{"timezone":"Europe/Zurich"}`: "2026-07-06T20:26:10+02:00",
	} {
		got, err := tools[0].Handler(t.Context(), lambae.ToolUse{Input: json.RawMessage(input)})
		require.NoError(t, err)
		require.Equal(t, want, got.Text())
	}
	_, err := tools[0].Handler(t.Context(), lambae.ToolUse{Input: json.RawMessage(`{"timezone":"Mars"}`)})
	require.ErrorContains(t, err, `no time zone "Mars"`)
}

func TestAskUserAsks(t *testing.T) {
	t.Parallel()
	var screen bytes.Buffer
	c := &chat{view: &view{out: &screen, rest: &screen}, input: &typed{lines: []string{"Ada"}}}
	ask := chatTools(time.Now, c.asker())[1]
	got, err := ask.Handler(t.Context(), lambae.ToolUse{Name: "ask_user", Input: json.RawMessage(`{"question":"Your name?"}`)})
	require.NoError(t, err)
	require.Equal(t, "Ada", got.Text())
	require.Equal(t, "  Your name?\n", screen.String())
	_, err = ask.Handler(t.Context(), lambae.ToolUse{Name: "ask_user", Input: json.RawMessage(`{"question":"And?"}`)})
	require.ErrorContains(t, err, "the user did not answer")
	_, err = ask.Handler(t.Context(), lambae.ToolUse{Name: "ask_user"})
	require.ErrorContains(t, err, "question must not be empty")
}

// typed is a person who types some lines and goes.
type typed struct{ lines []string }

func (t *typed) interactive() bool { return true }

func (t *typed) line(context.Context, string) (string, error) {
	if len(t.lines) == 0 {
		return "", io.EOF
	}
	line := t.lines[0]
	t.lines = t.lines[1:]
	return line, nil
}

// Times keep the three digits of the server, and members nobody here knows stay.
func TestJSONIsWhatTheServerSent(t *testing.T) {
	t.Parallel()
	const key = `{"id":"key_1","created_at":"2026-07-06T18:26:10.010Z","later":"<1>"}`
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"items":[` + key + `],"next_cursor":null}`))
	}))
	defer server.Close()
	client, err := admin.New(server.URL, "bae_admin_x", nil)
	require.NoError(t, err)
	var out bytes.Buffer
	for k, err := range client.Keys(t.Context()) {
		require.NoError(t, err)
		require.NoError(t, jsonLine(&out, k))
		require.NoError(t, jsonDocument(&out, &k))
	}
	require.Equal(t, key+"\n{\n  \"id\": \"key_1\",\n  \"created_at\": \"2026-07-06T18:26:10.010Z\",\n  \"later\": \"<1>\"\n}\n", out.String())
}
