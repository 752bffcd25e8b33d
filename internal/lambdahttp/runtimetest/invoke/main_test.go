package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lambae/lambae/internal/lambdahttp/runtimetest"
	"github.com/stretchr/testify/require"
)

func TestInvoke(t *testing.T) {
	t.Parallel()
	bin := runtimetest.Build(t, "../testdata/function")
	event := filepath.Join(t.TempDir(), "event.json")
	write := func(s string) { require.NoError(t, os.WriteFile(event, []byte(s), 0o600)) }
	invoke := func(args ...string) (out, logs string, err error) {
		var o strings.Builder
		l, err := os.Create(filepath.Join(t.TempDir(), "logs"))
		require.NoError(t, err)
		defer l.Close()
		err = run(append(args, bin, event), &o, l)
		written, readErr := os.ReadFile(l.Name())
		require.NoError(t, readErr)
		return o.String(), string(written), err
	}

	write(`{"answer":{"statusCode":200,"headers":{"x-key":"{{key}}"},"body":"hello {{name}}"}}`)
	out, logs, err := invoke("-i", "-set", "key=k=1", "-set", "name=you")
	require.NoError(t, err)
	require.Equal(t, "hello you", out)
	require.Equal(t, "200 OK\nX-Key: k=1\r\n\n", logs)

	_, _, err = invoke("-set", "key=1")
	require.ErrorAs(t, err, new(usageError))
	require.ErrorContains(t, err, "event.json: placeholder {{name}} has no value; give it one with -set name=value")

	_, _, err = invoke("-set", "key")
	require.ErrorContains(t, err, "write it as name=value")

	write(`{"answer":{"statusCode":404,"body":"none"}}`)
	out, _, err = invoke()
	require.EqualError(t, err, "the function answered 404 Not Found")
	require.Equal(t, "none", out)

	write(`{"fail":"no"}`)
	_, _, err = invoke()
	require.ErrorContains(t, err, `errorString: "no"`)

	event = "--" // three operands
	_, logs, err = invoke("one")
	require.ErrorAs(t, err, new(usageError))
	require.Contains(t, logs, "usage: invoke [flags] BIN event.json")
}
