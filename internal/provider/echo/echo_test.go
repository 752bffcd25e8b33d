package echo

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

const tools = `[{"name":"weather"},{"name":"clock"}]`

func user(text string) string {
	quoted, _ := json.Marshal(text)
	return `{"role":"user","content":` + string(quoted) + `}`
}

func array(messages ...string) []byte { return []byte("[" + strings.Join(messages, ",") + "]") }

func play(messages ...string) Answer {
	return Play(Prompt{Entry: "echo", System: "Be kind.", Messages: array(messages...), Tools: json.RawMessage(tools)})
}

func said(text string) []Block { return []Block{{Type: Text, Text: text}} }

func TestOneMessage(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]Answer{
		"hello":                           {Blocks: said("You said: hello")},
		"two\nlines":                      {Blocks: said("You said: two\nlines")},
		"":                                {Blocks: said("You said: ")},
		"/unknown thing":                  {Blocks: said("You said: /unknown thing")},
		"path a/tool b":                   {Blocks: said("You said: path a/tool b")},
		"/think Hm.\nhello":               {Blocks: []Block{{Type: Thinking, Text: "Hm."}, {Type: Text, Text: "You said: hello"}}},
		"/long 3":                         {Blocks: said("word1 word2 word3")},
		"/long 2\nhi":                     {Blocks: said("word1 word2\nYou said: hi")},
		"/slow\nhello":                    {Pause: 100 * time.Millisecond, Blocks: said("You said: hello")},
		"/slow 2s\nhello":                 {Pause: 2 * time.Second, Blocks: said("You said: hello")},
		"/slow 2s  one two":               {Pause: 2 * time.Second, Blocks: said("You said: one two")},
		"/sleep 50ms":                     {Sleep: 50 * time.Millisecond, Blocks: said("Done.")},
		"/tools":                          {Blocks: said("Tools: weather, clock.")},
		"/system":                         {Blocks: said("System prompt: Be kind.")},
		"/fail":                           {Failed: true, Status: 500, Blocks: said("Done.")},
		"/fail 429":                       {Failed: true, Status: 429, Blocks: said("Done.")},
		"/fail 0":                         {Failed: true, Status: 0, Blocks: said("Done.")},
		"/fail 503 echo\nhello":           {Failed: true, Status: 503, Blocks: said("You said: hello")},
		"/fail 503 other\nhello":          {Blocks: said("You said: hello")},
		`/tool weather {"city": "Paris"}`: {Blocks: []Block{{Type: ToolUse, ID: "toolu_echo_1_0", Name: "weather", Input: json.RawMessage(`{"city": "Paris"}`)}}},
		"Look:\n/tool weather\n/tool clock {}": {Blocks: []Block{
			{Type: ToolUse, ID: "toolu_echo_1_0", Name: "weather", Input: json.RawMessage(`{}`)},
			{Type: ToolUse, ID: "toolu_echo_1_1", Name: "clock", Input: json.RawMessage(`{}`)},
			{Type: Text, Text: "You said: Look:"},
		}},
		// What cannot be carried out is explained.
		"/tool":               {Blocks: said("/tool takes a tool's name and a JSON object.")},
		"/tool nope {}":       {Blocks: said(`No tool "nope" is declared; there is weather, clock.`)},
		"/tool weather [1]":   {Blocks: said("/tool weather takes a JSON object as input, not [1]")},
		"/tool weather {oops": {Blocks: said("/tool weather takes a JSON object as input, not {oops")},
		"/long many":          {Blocks: said("/long takes a number of words from 1 to 100000.")},
		"/long 100001":        {Blocks: said("/long takes a number of words from 1 to 100000.")},
		"/sleep 5":            {Blocks: said("/sleep takes a duration up to 10m0s, like 500ms or 2s.")},
		"/slow 11m":           {Blocks: said("/slow takes a duration up to 10m0s, like 500ms or 2s.")},
		"/fail 200":           {Blocks: said("/fail takes an HTTP status from 300 to 599, or 0 for no answer, and the name of a registry entry.")},
	} {
		t.Run(in, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, want, play(user(in)))
		})
	}
}

func TestWithoutToolsOrSystemPromptItSaysSo(t *testing.T) {
	t.Parallel()
	bare := func(text string) []Block { return Play(Prompt{Messages: array(user(text))}).Blocks }
	require.Equal(t, said("Tools: none."), bare("/tools"))
	require.Equal(t, said("There is no system prompt."), bare("/system"))
	require.Equal(t, said(`No tool "x" is declared; there is none.`), bare("/tool x"))
	require.Equal(t, said("You said: "), Play(Prompt{}).Blocks, "a conversation of nothing has an answer too")
}

func TestBlocksOfAMessage(t *testing.T) {
	t.Parallel()
	a := play(`{"role":"user","content":[{"type":"text","text":"see"},{"type":"image","source":{}},{"type":"text","text":"this"}]}`)
	require.Equal(t, said("You said: see\n[image]\nthis"), a.Blocks)
}

func called(ids ...string) string {
	var blocks []string
	for _, id := range ids {
		blocks = append(blocks, `{"type":"tool_use","id":"`+id+`","name":"name-of-`+id+`","input":{}}`)
	}
	return `{"role":"assistant","content":[` + strings.Join(blocks, ",") + `]}`
}

func results(blocks ...string) string {
	return `{"role":"user","content":[` + strings.Join(blocks, ",") + `]}`
}

func TestResultsOfToolsAreReported(t *testing.T) {
	t.Parallel()
	a := play(user("/tool weather"), called("a", "b", "c", "d"), results(
		`{"type":"tool_result","tool_use_id":"a","content":"18 °C"}`,
		`{"type":"tool_result","tool_use_id":"b","is_error":true,"content":[{"type":"text","text":"gone"},{"type":"image"}]}`,
		`{"type":"tool_result","tool_use_id":"c"}`,
		`{"type":"tool_result","tool_use_id":"d","content":{"x":[1]}}`,
	))
	require.Equal(t, said("Tool name-of-a said: 18 °C\nTool name-of-b failed: gone\n[image]\nTool name-of-c said: \nTool name-of-d said: {\"x\":[1]}"), a.Blocks)

	a = play(user("/tool weather"), called("a"), results(`{"type":"tool_result","tool_use_id":"a","content":"x"}`, `{"type":"text","text":"go on"}`))
	require.Equal(t, []Block{{Type: Text, Text: "Tool name-of-a said: x"}, {Type: Text, Text: "You said: go on"}}, a.Blocks)
}

func TestStagesFollowTheRoundTripsOfATurn(t *testing.T) {
	t.Parallel()
	text := user("/tool weather\n/then\n/tool clock\n/then\nthat is all")
	first := play(text)
	require.Equal(t, "weather", first.Blocks[0].Name)
	answer := func(id string) string {
		return results(`{"type":"tool_result","tool_use_id":"` + id + `","content":"ok"}`)
	}

	second := play(text, called("a"), answer("a"))
	require.Len(t, second.Blocks, 1, "while it calls it does not report")
	require.Equal(t, Block{Type: ToolUse, ID: "toolu_echo_3_0", Name: "clock", Input: json.RawMessage("{}")}, second.Blocks[0])

	third := play(text, called("a"), answer("a"), called("b"), answer("b"))
	require.Equal(t, []Block{{Type: Text, Text: "Tool name-of-b said: ok"}, {Type: Text, Text: "You said: that is all"}}, third.Blocks)

	next := play(text, called("a"), answer("a"), `{"role":"assistant","content":"done"}`, user("again"))
	require.Equal(t, said("You said: again"), next.Blocks, "the next turn begins anew")
}

func TestALoopCallsInEveryRoundTrip(t *testing.T) {
	t.Parallel()
	messages := []string{user("/loop clock {\"n\":1}")}
	ids := map[string]bool{}
	for range 9 {
		a := play(messages...)
		require.Len(t, a.Blocks, 1)
		require.True(t, a.Calls())
		ids[a.Blocks[0].ID] = true
		messages = append(messages, called(a.Blocks[0].ID), results(`{"type":"tool_result","tool_use_id":"`+a.Blocks[0].ID+`","content":"x"}`))
	}
	require.Len(t, ids, 9, "every call has an id of its own")
}

func TestEveryConversationHasOneAnswer(t *testing.T) {
	t.Parallel()
	line := rapid.OneOf(
		rapid.SampledFrom([]string{"/tool weather {}", "/tool", "/loop clock", "/then", "/think x", "/long 2", "/fail", "/sleep 1s", "/slow", "/tools", "/system", "/help", ""}),
		rapid.String())
	rapid.Check(t, func(t *rapid.T) {
		var messages []string
		for range rapid.IntRange(0, 4).Draw(t, "rounds") {
			messages = append(messages, user(strings.Join(rapid.SliceOfN(line, 0, 5).Draw(t, "lines"), "\n")))
			if rapid.Bool().Draw(t, "answered") {
				messages = append(messages, called("a"), results(`{"type":"tool_result","tool_use_id":"a","content":"x"}`))
			}
		}
		a := play(messages...)
		require.Equal(t, a, play(messages...), "the same conversation, the same answer")
		require.NotEmpty(t, a.Blocks)
		for _, b := range a.Blocks {
			require.True(t, b.Type != ToolUse || b.ID != "" && json.Valid(b.Input))
		}
	})
}

func TestTheGuideAndTheHelpNameEveryCommand(t *testing.T) {
	t.Parallel()
	guide, err := os.ReadFile("echo.md")
	require.NoError(t, err)
	for word := range strings.FieldsSeq("/tool /then /loop /think /long /slow /sleep /fail /tools /system /help") {
		if word != "/then" {
			require.True(t, (&scene{}).act(word, ""), word)
		}
		require.Regexp(t, fmt.Sprintf("(?m)^\\| `%s[ `]", word), string(guide))
		require.Regexp(t, fmt.Sprintf("(?m)^%s[ :]", word), help)
	}
}
