package session

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// messagesOf decodes a view.
func messagesOf(t require.TestingT, segments ...[]byte) []map[string]any {
	var out []map[string]any
	text := "[" + string(bytes.Join(segments, nil)) + "]"
	require.NoError(t, json.Unmarshal([]byte(text), &out), text)
	return out
}

// Every prefix of operations has its own list of messages: roles alternate, and
// the bytes stay the same whatever is said later.
func TestEveryPrefixOfTheHistoryKeepsItsBytes(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		h := &History{}
		var views, encoded []string
		strip := func(dst, m []byte) ([]byte, error) {
			return append(dst, bytes.ReplaceAll(m, []byte(`,"dispatch":"client"`), nil)...), nil
		}
		texts := 0
		for i := range rapid.IntRange(0, 12).Draw(t, "operations") {
			role := rapid.SampledFrom([]string{"user", "assistant"}).Draw(t, "role")
			content := Quote(fmt.Sprintf("text %d\u2028", i))
			if rapid.Bool().Draw(t, "blocks") {
				content = json.RawMessage(fmt.Sprintf(`[{"type":"tool_use","id":"t%d","dispatch":"client"}]`, i))
			} else {
				texts++
			}
			h.add(said{role, NewMessage(role, content)})
			view := h.View(h.Ops())
			views = append(views, string(bytes.Join(view[:], nil)))
			if rapid.Bool().Draw(t, "encode now") {
				_, err := h.encoded(h.Ops(), "f", strip)
				require.NoError(t, err)
			}
			whole, _ := strip(nil, []byte(views[i]))
			encoded = append(encoded, string(whole))
		}
		for i, want := range views {
			view := h.View(int64(i + 1))
			require.Equal(t, want, string(bytes.Join(view[:], nil)))
			require.NotContains(t, want, "\u2028")
			messages := messagesOf(t, view[:]...)
			for k := 1; k < len(messages); k++ {
				require.NotEqual(t, messages[k-1]["role"], messages[k]["role"])
			}
			last, _ := json.Marshal(messages[len(messages)-1])
			require.JSONEq(t, string(last), string(h.Message(int64(i+1))))
			segments, err := h.encoded(int64(i+1), "f", strip)
			require.NoError(t, err)
			require.Equal(t, encoded[i], string(bytes.Join(segments, nil)))
		}
		require.Equal(t, texts, strings.Count(string(h.buf), `text `))
	})
}

func TestMergedMessagesKeepEveryBlock(t *testing.T) {
	t.Parallel()
	h := &History{}
	for _, content := range []string{`"one"`, `""`, `[{"type":"text","text":"two"}]`} {
		h.add(said{"user", NewMessage("user", json.RawMessage(content))})
	}
	view := h.View(3)
	require.JSONEq(t, `[{"role":"user","content":[{"type":"text","text":"one"},{"type":"text","text":"two"}]}]`, "["+string(bytes.Join(view[:], nil))+"]")
	require.JSONEq(t, `{"role":"user","content":"one"}`, string(h.Message(1)))
}

func TestMessagesThatAFormatLeavesOutLeaveNoComma(t *testing.T) {
	t.Parallel()
	drop := func(dst, m []byte) ([]byte, error) {
		if bytes.Contains(m, []byte("unsaid")) {
			return dst, nil
		}
		return append(dst, m...), nil
	}
	const kept = `{"role":"user","content":"said"}`
	for name, c := range map[string]struct {
		messages []said
		want     string
	}{
		"the first": {[]said{{"assistant", message("assistant", Quote("unsaid"))}, {"user", []byte(kept)}}, kept},
		"between": {[]said{{"user", []byte(kept)}, {"assistant", message("assistant", Quote("unsaid"))}, {"user", []byte(kept)}},
			kept + "," + kept},
		"the last": {[]said{{"user", []byte(kept)}, {"assistant", message("assistant", Quote("unsaid"))}}, kept},
		"the only": {[]said{{"assistant", message("assistant", Quote("unsaid"))}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := &History{}
			for _, m := range c.messages {
				h.add(m)
			}
			for range 2 { // the second time from what the first has kept
				segments, err := h.encoded(h.Ops(), "f", drop)
				require.NoError(t, err)
				require.Equal(t, c.want, string(bytes.Join(segments, nil)))
			}
		})
	}
}
