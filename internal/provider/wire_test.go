package provider

import (
	"encoding/json"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestSegmentReaderGivesTheConcatenation(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		middle := rapid.SliceOf(rapid.SliceOf(rapid.Byte())).Draw(t, "segments")
		b := newBody([]byte("<"), middle, []byte(">"))
		want := b.bytes()
		require.EqualValues(t, len(want), b.size)
		for range 2 { // every reader starts anew
			var r io.Reader = b.reader()
			if rapid.Bool().Draw(t, "small") {
				r = iotest.OneByteReader(r)
			}
			got, err := io.ReadAll(r)
			require.NoError(t, err)
			require.Equal(t, want, got)
		}
	})
}

func TestReadEvents(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		in   string
		want []string
	}{
		"one event":              {"event: x\ndata: a\n\n", []string{"a"}},
		"no space":               {"data:a\n\n", []string{"a"}},
		"only one space goes":    {"data:  a\n\n", []string{" a"}},
		"several lines are one":  {"data: a\ndata: b\n\n", []string{"a\nb"}},
		"CRLF":                   {"data: a\r\n\r\ndata: b\r\n\r\n", []string{"a", "b"}},
		"comments and ids":       {": hi\nid: 1\nretry: 5\ndata: a\n\n: bye\n\n", []string{"a"}},
		"many empty lines":       {"\n\ndata: a\n\n\n\ndata: b\n\n", []string{"a", "b"}},
		"no last empty line":     {"data: a\n\ndata: b", []string{"a", "b"}},
		"no last newline at all": {"data: a\n", []string{"a"}},
		"nothing":                {"", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []string
			err := readEvents(iotest.HalfReader(strings.NewReader(c.in)), 1<<20, func(data []byte) error { got = append(got, string(data)); return nil })
			require.NoError(t, err)
			require.Equal(t, c.want, got)
		})
	}
}

func TestReadEventsStopsWithTheFirstError(t *testing.T) {
	t.Parallel()
	in := strings.NewReader("data: a\n\ndata: b\n\n")
	require.ErrorIs(t, readEvents(in, 1<<20, func([]byte) error { return errStop }), errStop)

	broken := io.MultiReader(strings.NewReader("data: a\n\ndata: b"), iotest.ErrReader(io.ErrUnexpectedEOF))
	var got []string
	err := readEvents(broken, 1<<20, func(data []byte) error { got = append(got, string(data)); return nil })
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	require.Equal(t, []string{"a"}, got, "an event that a failure cut off is not passed on")

	require.ErrorContains(t, readEvents(strings.NewReader(strings.Repeat("x", 2<<20)), 1<<20, nil), "larger than 1 MB")
}

func TestObjectKeepsOrderAndBytes(t *testing.T) {
	t.Parallel()
	o, err := parseObject(`{ "b" : 1.0 , "a":[1, 2], "é\n":"\u00e9", "b":2e1 }`)
	require.NoError(t, err)
	require.Equal(t, `{"b":2e1,"a":[1, 2],"é\n":"\u00e9"}`, o.String())
	o.set("a", "null")
	o.set("z", `"<&>"`)
	require.Equal(t, `{"b":2e1,"a":null,"é\n":"\u00e9","z":"<&>"}`, o.String())
	require.Equal(t, "<&>", o.text("z"))
	_, err = parseObject(`[]`)
	require.EqualError(t, err, "want a JSON object, got an array")
}

func TestQuoteIsReadBackAsItWas(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.String().Draw(t, "s")
		var got string
		require.NoError(t, json.Unmarshal(quote(s), &got))
		require.Equal(t, s, got)
	})
	require.Equal(t, `"<a & b>"`, string(quote("<a & b>")))
}
