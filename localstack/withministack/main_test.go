package main

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lambae/lambae/internal/table/tabletest/ministack"
)

// The tests change the process's environment and folder, so none is parallel.

func TestTheCommandFindsAMiniStackThatEndsWithIt(t *testing.T) {
	t.Chdir("../..")
	t.Setenv(ministack.EndpointVariable, "")
	seen := filepath.Join(t.TempDir(), "endpoint")
	code, err := run([]string{"sh", "-c", `printf %s "$LAMBAE_TEST_DYNAMODB" > ` + seen})
	require.NoError(t, err)
	require.Zero(t, code)
	endpoint, err := os.ReadFile(seen)
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(string(endpoint), "http://127.0.0.1:"), "%s", endpoint)
	_, err = http.Get(string(endpoint))
	require.ErrorContains(t, err, "connection refused")
}

func TestTheExitCodeIsThatOfTheCommand(t *testing.T) {
	t.Setenv(ministack.EndpointVariable, "http://127.0.0.1:1") // so that none is started
	for script, want := range map[string]int{"exit 0": 0, "exit 3": 3, "kill -9 $$": 1} {
		code, err := run([]string{"sh", "-c", script})
		require.NoError(t, err)
		require.Equal(t, want, code, script)
	}
	_, err := run([]string{"no-such-command"})
	require.ErrorIs(t, err, exec.ErrNotFound)
}

func TestWithoutAnInstallationItSaysWhatToDo(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv(ministack.EndpointVariable, "")
	_, err := run([]string{"true"})
	require.ErrorContains(t, err, `run "make ministack-install"`)
}
