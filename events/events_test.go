// Package events_test keeps the sample events what a Function URL would send.
package events_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/aws/aws-lambda-go/events"
	"github.com/lambae/lambae/internal/lambdahttp/runtimetest"
	"github.com/stretchr/testify/require"
)

func TestSamplesAreRequestsOfAFunctionURL(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("*.json")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	for _, file := range files {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			raw, err := os.ReadFile(file)
			require.NoError(t, err)
			filled, err := runtimetest.Fill(raw, map[string]string{
				"client_key":  "bae_" + strings.Repeat("a", 48),
				"session_id":  "ses_" + strings.Repeat("b", 32),
				"session_key": "bae_ses_" + strings.Repeat("c", 48),
			})
			require.NoError(t, err, "a placeholder the README does not name")
			var e events.LambdaFunctionURLRequest
			require.NoError(t, json.Unmarshal(filled, &e))

			require.Equal(t, "2.0", e.Version)
			require.Equal(t, e.RawPath, e.RequestContext.HTTP.Path)
			require.Equal(t, e.Headers["host"], e.RequestContext.DomainName)
			require.NotEmpty(t, e.RequestContext.HTTP.Method)
			for name := range e.Headers {
				require.Equal(t, strings.ToLower(name), name)
			}
			if e.Body != "" {
				require.True(t, json.Valid([]byte(e.Body)))
				require.Equal(t, strconv.Itoa(len(e.Body)), e.Headers["content-length"])
				require.Equal(t, "application/json", e.Headers["content-type"])
			}
			require.True(t, bytes.Contains(readme, []byte("`"+file+"`")), "the README names each file")
		})
	}
}
