//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lambae/lambae/internal/sandbox/wire"
)

// In a task the code comes in the environment. Once sandboxd works, it is in no
// environment any more, neither its own nor a command's.
func TestTheCodeLeavesTheEnvironmentBeforeAnyCommandRuns(t *testing.T) {
	t.Parallel()
	bin := filepath.Join(t.TempDir(), "sandboxd")
	build := exec.Command("go", "build", "-o", bin, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := build.CombinedOutput()
	require.NoError(t, err, string(out))
	said := make(chan string, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasSuffix(r.URL.Path, "/enroll"):
			require.Equal(t, "Bearer secret-code", r.Header.Get("Authorization"))
			fmt.Fprint(w, `{}`)
		case strings.HasSuffix(r.URL.Path, "/commands"):
			fmt.Fprint(w, `{"orders":[{"n":1,"command":"env; tr '\\0' '\\n' </proc/$PPID/environ; tr '\\0' ' ' </proc/$PPID/cmdline"}]}`)
		case strings.HasSuffix(r.URL.Path, "/results"):
			var o wire.Outcome
			require.NoError(t, json.NewDecoder(r.Body).Decode(&o))
			said <- o.Result.Stdout + o.Result.Stderr
		}
	}))
	defer server.Close()
	boot, err := json.Marshal(wire.Boot{URL: server.URL, Sandbox: "sbx_1", Code: "secret-code"})
	require.NoError(t, err)
	cmd := exec.Command(bin)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), bootVariable + "=" + string(boot), "ECS_CONTAINER_METADATA_URI_V4=http://169.254.170.2/v4/x"}
	require.NoError(t, cmd.Start())
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	select {
	case text := <-said:
		require.Contains(t, text, "PATH=")
		require.NotContains(t, text, "secret-code")
		require.NotContains(t, text, bootVariable)
		require.NotContains(t, strings.SplitN(text, "\nPATH", 2)[0], server.URL)
	case <-time.After(30 * time.Second):
		require.Fail(t, "sandboxd ran nothing")
	}
}
