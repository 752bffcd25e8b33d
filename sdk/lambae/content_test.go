package lambae_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/lambae/lambae/sdk/lambae"
)

func TestContentReads(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		raw    string
		text   string
		blocks int
	}{
		"a string as its text":                   {`"a\u2028<b>"`, "a\u2028<b>", 1},
		"blocks as the text of those that have":  {`[{"type":"text","text":"a"},{"type":"image"},{"type":"text","text":"b"}]`, "ab", 3},
		"an empty list as nothing":               {`[]`, "", 0},
		"null as nothing":                        {`null`, "", 0},
		"other JSON as itself":                   {`{"n":1}`, `{"n":1}`, 0},
		"a list of something else as no blocks":  {`[1,2]`, "", 0},
		"a list of untyped objects as no blocks": {`[{"a":1}]`, "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var content lambae.Content
			require.NoError(t, json.Unmarshal([]byte(test.raw), &content))
			require.Equal(t, test.text, content.Text())
			require.Len(t, content.Blocks(), test.blocks)
			require.Equal(t, test.raw, string(content.Raw()))
		})
	}
}

func TestContentIsMade(t *testing.T) {
	t.Parallel()
	result := lambae.ToolResult{ToolUseID: "t1", Content: lambae.Text("<42>")}
	failed := lambae.ToolResult{ToolUseID: "t2", Content: lambae.Blocks(lambae.TextBlock("no")), IsError: true}
	for name, test := range map[string]struct {
		content lambae.Content
		want    string
	}{
		"empty from nothing":        {lambae.Content{}, `""`},
		"from text, unescaped":      {lambae.Text("a<b>&\"\n"), `"a<b>&\"\n"`},
		"with line ends escaped":    {lambae.Text("\u2028\u2029\u0085"), `"\u2028\u2029\u0085"`},
		"from no blocks":            {lambae.Blocks(), `[]`},
		"from blocks":               {lambae.Blocks(lambae.TextBlock("a"), lambae.Block{}), `[{"type":"text","text":"a"},{"type":"text","text":""}]`},
		"from a tool result":        {lambae.Blocks(lambae.ToolResultBlock(result)), `[{"type":"tool_result","tool_use_id":"t1","content":"<42>"}]`},
		"from a failed tool result": {lambae.Blocks(lambae.ToolResultBlock(failed)), `[{"type":"tool_result","tool_use_id":"t2","content":[{"type":"text","text":"no"}],"is_error":true}]`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, test.want, string(test.content.Raw()))
		})
	}
}

func TestBlocksReadAsWhatTheyAre(t *testing.T) {
	t.Parallel()
	block, err := lambae.RawBlock([]byte(`{"type":"tool_use","id":"t1","name":"a","input":{"q": 1},"dispatch":"client","extra":1}`))
	require.NoError(t, err)
	call, ok := block.ToolUse()
	require.True(t, ok)
	require.Equal(t, lambae.ToolUse{ID: "t1", Name: "a", Input: []byte(`{"q": 1}`), Dispatch: "client"}, call)
	_, ok = block.ToolResult()
	require.False(t, ok)
	require.Empty(t, block.Text())

	result, ok := lambae.ToolResultBlock(lambae.ToolResult{ToolUseID: "t1", IsError: true}).ToolResult()
	require.True(t, ok)
	require.True(t, result.IsError)
	_, ok = lambae.TextBlock("x").ToolUse()
	require.False(t, ok)
}

func TestWhatIsNoBlockIsRefused(t *testing.T) {
	t.Parallel()
	for _, raw := range []string{`{`, `[]`, `"x"`, `{}`, `{"type":1}`, `{"text":"a"}`, `null`} {
		_, err := lambae.RawBlock([]byte(raw))
		require.Error(t, err, raw)
	}
	_, err := lambae.RawContent([]byte(`{"a":`))
	require.ErrorContains(t, err, "not valid JSON")
}

// anyJSON draws JSON with members, numbers and spaces that Go would write
// otherwise.
func anyJSON() *rapid.Generator[string] {
	return rapid.Deferred(func() *rapid.Generator[string] {
		scalar := rapid.SampledFrom([]string{
			`1.0`, `12345678901234567890`, `1e5`, `-0`, `"a\/b"`, `"\u003c<"`, `"é\u00e9"`, "\"\u2028\"", `null`, `true`, `""`,
		})
		list := rapid.Custom(func(t *rapid.T) string { return "[ " + anyJSON().Draw(t, "a") + ",\t" + anyJSON().Draw(t, "b") + "]" })
		object := rapid.Custom(func(t *rapid.T) string {
			return `{"z":` + anyJSON().Draw(t, "z") + ` , "a": ` + anyJSON().Draw(t, "a") + `}`
		})
		return rapid.OneOf(scalar, scalar, scalar, list, object)
	})
}

func TestContentPassesThroughByteForByte(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		raw := anyJSON().Draw(t, "json")
		content, err := lambae.RawContent([]byte(raw))
		require.NoError(t, err)
		require.Equal(t, raw, string(content.Raw()))

		block := `{"new": ` + raw + `,"type":"thing"}`
		var message lambae.Message
		require.NoError(t, json.Unmarshal([]byte(`{"role":"user","content":[`+block+`]}`), &message))
		require.Equal(t, "["+block+"]", string(message.Content.Raw()))
		require.Equal(t, block, string(message.Content.Blocks()[0].Raw()))
		require.Equal(t, "["+block+"]", string(lambae.Blocks(message.Content.Blocks()...).Raw()))
	})
}
