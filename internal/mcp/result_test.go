package mcp

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestNewResult(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, raw          string
		wantRaw, wantBlock string
		isError            bool
		err                string
	}{
		{"as given", `{"content":[{"type":"text","text":"a"}],"isError":true}`, `{"content":[{"type":"text","text":"a"}],"isError":true}`, `[{"type":"text","text":"a"}]`, true, ""},
		{"isError is added at the end", `{"content":[] }`, `{"content":[],"isError":false}`, `[]`, false, ""},
		{"an empty object is an empty result", `{ }`, `{"isError":false}`, `[]`, false, ""},
		{"null content is none", `{"content":null,"isError":false}`, `{"content":null,"isError":false}`, `[]`, false, ""},
		{"structured content stands in for missing blocks", `{"structuredContent":{"a":"<1.10>"},"isError":false}`,
			`{"structuredContent":{"a":"<1.10>"},"isError":false}`, `[{"type":"text","text":"{\"a\":\"<1.10>\"}"}]`, false, ""},
		{"blocks win over structured content", `{"content":[{"type":"text","text":"a"}],"structuredContent":1,"isError":false}`,
			`{"content":[{"type":"text","text":"a"}],"structuredContent":1,"isError":false}`, `[{"type":"text","text":"a"}]`, false, ""},
		{"an indented message is made one line", "{\n  \"content\": [ ],\r\n  \"isError\": false\n}", `{"content":[],"isError":false}`, `[]`, false, ""},
		{"content that is no array", `{"content":{"type":"text"}}`, "", "", false, "content that is not an array"},
		{"no object", `[1]`, "", "", false, "not the form"},
		{"not JSON", "{\n", "", "", false, "not JSON"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r, err := newResult(json.RawMessage(tt.raw))
			if tt.err != "" {
				require.ErrorContains(t, err, tt.err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tt.wantRaw, string(r.Raw))
			require.Equal(t, tt.wantBlock, string(r.Content))
			require.Equal(t, tt.isError, r.IsError)
		})
	}
}

func TestAddingAMemberKeepsTheOthers(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		members := rapid.MapOf(rapid.String(), rapid.OneOf(rapid.Just(any("x")), rapid.Just(any([]any{})), rapid.Just(any(map[string]any{})))).Draw(t, "members")
		raw, err := json.Marshal(members)
		require.NoError(t, err)
		space := rapid.StringMatching(`[ \t]*`).Draw(t, "space")
		raw = append(append(raw[:len(raw)-1], space...), "}"+space...)
		out := withMember(raw, `"added":1`)
		var got map[string]any
		require.NoError(t, json.Unmarshal(out, &got))
		members["added"] = 1.0
		require.Equal(t, members, got)
	})
}

func TestModelBlocks(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, in, want string }{
		{"a text stays byte for byte", `[{"text":"<\u00e9>" , "type":"text"}]`, `[{"text":"<\u00e9>" , "type":"text"}]`},
		{"members the API refuses go", `[{"type":"text","text":"a<b","annotations":{"priority":1}}]`, `[{"type":"text","text":"a<b"}]`},
		{"an empty text goes", `[{"type":"text","text":""},{"type":"text","text":"a"}]`, `[{"type":"text","text":"a"}]`},
		{"an image", `[{"type":"image","data":"cGl4","mimeType":"image/png"}]`,
			`[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"cGl4"}}]`},
		{"an image no model takes", `[{"type":"image","data":"cGl4ZQ==","mimeType":"image/tiff"}]`,
			`[{"type":"text","text":"[image (image/tiff, 4 bytes) cannot be shown]"}]`},
		{"audio", `[{"type":"audio","data":"cGl4","mimeType":"audio/wav"}]`, `[{"type":"text","text":"[audio (audio/wav, 3 bytes) cannot be shown]"}]`},
		{"a text resource", `[{"type":"resource","resource":{"uri":"file:///a","text":"hi"}}]`, `[{"type":"text","text":"hi"}]`},
		{"an empty text resource goes", `[{"type":"resource","resource":{"uri":"file:///a","text":""}}]`, `[]`},
		{"a PDF resource", `[{"type":"resource","resource":{"uri":"file:///a","mimeType":"application/pdf","blob":"cGl4"}}]`,
			`[{"type":"document","source":{"type":"base64","media_type":"application/pdf","data":"cGl4"}}]`},
		{"another resource", `[{"type":"resource","resource":{"uri":"file:///a","mimeType":"x/y","blob":"cGl4"}}]`,
			`[{"type":"text","text":"[file:///a (x/y, 3 bytes) cannot be shown]"}]`},
		{"a link", `[{"type":"resource_link","uri":"https://x","name":"X","description":"the x"}]`, `[{"type":"text","text":"[link to https://x] X the x"}]`},
		{"an unknown type is shown as it is", `[{"type":"hologram","n":1}]`, `[{"type":"text","text":"{\"type\":\"hologram\",\"n\":1}"}]`},
		{"no object", `[1]`, `[{"type":"text","text":"1"}]`},
		{"no array", `"plain"`, `"plain"`},
		{"nothing", `[]`, `[]`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tt.want, string(ModelBlocks(json.RawMessage(tt.in))))
		})
	}
}

func TestLongWordsOfAServerAreCut(t *testing.T) {
	t.Parallel()
	require.Equal(t, "short", cut("short"))
	rapid.Check(t, func(t *rapid.T) {
		s := strings.Repeat("x", rapid.IntRange(1990, 2000).Draw(t, "n")) + strings.Repeat("😀", 10)
		got := cut(s)
		require.True(t, utf8.ValidString(got))
		require.True(t, strings.HasPrefix(s, strings.TrimSuffix(got, "…")))
		require.InDelta(t, 2000, len(got), 8)
	})
}
