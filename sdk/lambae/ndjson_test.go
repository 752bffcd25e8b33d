package lambae

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// filler is an endless source of one byte.
type filler byte

func (f filler) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(f)
	}
	return len(p), nil
}

func TestLines(t *testing.T) {
	t.Parallel()
	const line = `{"jsonrpc":"2.0","method":"m","params":"x"}`
	long := `{"jsonrpc":"2.0","id":1,"result":"` + strings.Repeat("a", 200<<10) + `"}`
	for name, test := range map[string]struct {
		stream string
		count  int
		end    error
	}{
		"an empty stream ends":                               {"", 0, io.EOF},
		"blank lines are keep-alives":                        {"\n \n\r\n" + line + "\n\n", 1, io.EOF},
		"a line may end in CR LF":                            {line + "\r\n" + line + "\r\n", 2, io.EOF},
		"the last line may lack its end":                     {line + "\n" + line, 2, io.EOF},
		"half a line is a cut":                               {line + "\n" + line[:20], 1, io.ErrUnexpectedEOF},
		"half a long line is a cut":                          {long[:len(long)-1], 0, io.ErrUnexpectedEOF},
		"a line is longer than any buffer":                   {long + "\n" + line + "\n", 2, io.EOF},
		"U+2028, U+2029 and U+0085 end no line":              {strings.ReplaceAll(line, "x", "a\u2028b\u2029c\u0085d") + "\n", 1, io.EOF},
		"text that is not JSON is malformed":                 {line + "\nupstream timed out\n", 1, errMalformed},
		"JSON that is no object is malformed":                {"[]\n", 0, errMalformed},
		"an object that neither tells nor ends is malformed": {"{\"jsonrpc\":\"2.0\"}\n", 0, errMalformed},
		"an error needs no id":                               {`{"jsonrpc":"2.0","error":{"code":-32000,"message":"lagged"}}` + "\n", 1, io.EOF},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			reads := 0
			lines := newLines(strings.NewReader(test.stream), func() { reads++ })
			count := 0
			var err error
			for ; err == nil; count++ {
				_, err = lines.next()
			}
			require.ErrorIs(t, err, test.end)
			require.Equal(t, test.count, count-1)
			require.GreaterOrEqual(t, reads, count-1)
		})
	}
}

func TestLinesKeepWhatTheyHold(t *testing.T) {
	t.Parallel()
	raw := `{"id":1,"result":{"text":"a` + "\u2028" + `b","big":12345678901234567890.10,"z":1,"a":[ 1 , 2 ]}}`
	line, err := newLines(strings.NewReader(raw+"\n"), func() {}).next()
	require.NoError(t, err)
	require.Equal(t, `{"text":"a`+"\u2028"+`b","big":12345678901234567890.10,"z":1,"a":[ 1 , 2 ]}`, string(line.Result))
}

func TestLinesRefuseEndlessOnes(t *testing.T) {
	t.Parallel()
	lines := newLines(filler('a'), func() {})
	require.Equal(t, 64<<20, lines.max)
	lines.max = 1 << 20
	_, err := lines.next()
	require.ErrorIs(t, err, errMalformed)
	require.ErrorContains(t, err, "longer than 1 MB")
}

func TestLinesReportReadErrors(t *testing.T) {
	t.Parallel()
	broken := errors.New("connection reset")
	_, err := newLines(io.MultiReader(strings.NewReader(`{"id`), errorReader{broken}), func() {}).next()
	require.ErrorIs(t, err, broken)
}

type errorReader struct{ err error }

func (r errorReader) Read([]byte) (int, error) { return 0, r.err }
