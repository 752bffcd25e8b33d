package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lambae/lambae/sdk/lambae"
)

// Not parallel: it kills every instance of the client function.
func TestATurnWhoseFunctionIsKilledIsTakenOver(t *testing.T) {
	w := deployed(t)
	if w.cfg.BaseEndpoint == nil && os.Getenv("AWS_ENDPOINT_URL") == "" {
		t.Skip("functions on AWS cannot be killed from here")
	}
	profile := w.profile(t)
	a := driver(t, w.client(t, profile))
	b := joined(t, w.client(t, profile), a.ID)
	ctx := patient(t)

	go func() { // its caller gets an error, or nothing, when the function dies
		_, _ = a.Run(ctx, lambae.UserMessage("/tool wait {}"), nil)
	}()
	select {
	case <-theWait.called:
	case <-ctx.Done():
		require.Fail(t, "the turn did not come to its tool")
	}
	require.NotZero(t, killClientFunctions(t), "the turn runs in a process on this machine")
	close(theWait.released)

	result, err := b.Run(ctx, lambae.UserMessage("anybody there?"), nil)
	require.NoError(t, err)
	require.Contains(t, result.Text(), "You said: anybody there?")
	reasons := 0
	for _, e := range events(t, b) {
		var payload lambae.ErrorPayload
		if e.Type == lambae.EventSessionError && json.Unmarshal(e.Payload, &payload) == nil && payload.Reason == "driver_turn_abandoned" {
			reasons++
		}
	}
	require.Equal(t, 1, reasons, "the broken turn is closed once")
}

// killClientFunctions kills the processes that the emulator runs the stack's
// client function in, and returns how many there were.
func killClientFunctions(t *testing.T) (killed int) {
	t.Helper()
	for pid := range clientFunctions(t) {
		require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
		killed++
	}
	return killed
}

// clientFunctions finds those processes by their environment: the function of
// this stage, in the emulator under test.
func clientFunctions(t *testing.T) map[int]bool {
	t.Helper()
	if _, err := os.Stat("/proc/self/environ"); err != nil {
		t.Skip("processes are found through /proc, which this system does not have")
	}
	function := "AWS_LAMBDA_FUNCTION_NAME=lambae-" + os.Getenv("LAMBAE_E2E_STAGE") + "-Client"
	emulator := "AWS_ENDPOINT_URL=" + os.Getenv("AWS_ENDPOINT_URL")
	found := map[int]bool{}
	files, err := filepath.Glob("/proc/[0-9]*/environ")
	require.NoError(t, err)
	for _, file := range files {
		environ, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended, or is somebody else's
		}
		of, at := false, false
		for _, entry := range strings.Split(string(environ), "\x00") {
			of = of || strings.HasPrefix(entry, function)
			at = at || entry == emulator
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if of && at && err == nil {
			found[pid] = true
		}
	}
	return found
}
