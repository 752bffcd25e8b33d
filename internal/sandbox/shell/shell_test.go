//go:build unix

package shell_test

import (
	"bytes"
	"context"
	"errors"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lambae/lambae/internal/sandbox"
	"github.com/lambae/lambae/internal/sandbox/shell"
)

func sh(script string) (shell.Command, *bytes.Buffer, *bytes.Buffer) {
	var out, err bytes.Buffer
	return shell.Command{Args: []string{"sh", "-c", script}, Stdout: &out, Stderr: &err}, &out, &err
}

func TestACommandHasTwoStreamsAndACode(t *testing.T) {
	t.Parallel()
	for script, want := range map[string]struct {
		out, err string
		code     int
	}{
		"echo out; echo err >&2": {"out\n", "err\n", 0},
		"exit 3":                 {"", "", 3},
		"kill -9 $$":             {"", "", 137},
		"":                       {"", "", 0},
		"cat":                    {"", "", 0}, // no input is the end of input
		"not-a-command-at-all":   {"", "not found", 127},
	} {
		t.Run(script, func(t *testing.T) {
			t.Parallel()
			c, out, stderr := sh(script)
			exit, err := shell.Run(t.Context(), c)
			require.NoError(t, err)
			require.Equal(t, shell.Exit{Code: want.code}, exit)
			require.Equal(t, want.out, out.String())
			require.Contains(t, stderr.String(), want.err)
		})
	}
}

func TestInputOfAnySizeArrivesUnchanged(t *testing.T) {
	t.Parallel()
	c, out, _ := sh("cat")
	c.Stdin = bytes.Repeat([]byte("\x00'\"\n\xff"), 1<<18)
	_, err := shell.Run(t.Context(), c)
	require.NoError(t, err)
	require.True(t, bytes.Equal(c.Stdin, out.Bytes()))
}

func TestACommandNeedNotReadItsInput(t *testing.T) {
	t.Parallel()
	c, _, _ := sh("true")
	c.Stdin = make([]byte, 1<<22)
	exit, err := shell.Run(t.Context(), c)
	require.NoError(t, err)
	require.Zero(t, exit.Code)
}

func alive(pid int) bool { return syscall.Kill(pid, 0) == nil }

// gone waits for the end of the process whose id a script printed.
func gone(t *testing.T, out string) {
	t.Helper()
	pid, err := strconv.Atoi(strings.TrimSpace(out))
	require.NoError(t, err)
	require.Eventually(t, func() bool { return !alive(pid) }, 5*time.Second, 5*time.Millisecond, "process %d lives on", pid)
}

func TestATimeOutKillsTheWholeGroup(t *testing.T) {
	t.Parallel()
	c, out, _ := sh("sleep 60 & echo $!; trap '' TERM; wait")
	c.Timeout = 100 * time.Millisecond
	began := time.Now()
	exit, err := shell.Run(t.Context(), c)
	require.NoError(t, err)
	require.True(t, exit.TimedOut)
	require.Less(t, time.Since(began), 5*time.Second)
	gone(t, out.String())
}

func TestACancelledCommandIsKilled(t *testing.T) {
	t.Parallel()
	c, out, _ := sh("sleep 60 & echo $!; wait")
	ctx, cancel := context.WithCancelCause(t.Context())
	reason := errors.New("no longer wanted")
	c.Started = func(int) { time.AfterFunc(50*time.Millisecond, func() { cancel(reason) }) }
	_, err := shell.Run(ctx, c)
	require.ErrorIs(t, err, reason)
	gone(t, out.String())
}

func TestABackgroundProcessHoldsNothingUpAndLivesOn(t *testing.T) {
	t.Parallel()
	over := make(chan struct{})
	c, out, _ := sh("(while :; do echo more; sleep 0.02; done) & echo started $!")
	c.Over = func() { close(over) }
	var group int
	c.Started = func(g int) { group = g }
	began := time.Now()
	exit, err := shell.Run(t.Context(), c)
	require.NoError(t, err)
	require.Zero(t, exit.Code)
	require.Less(t, time.Since(began), 3*time.Second)
	require.Contains(t, out.String(), "started ")
	said := out.Len()
	select {
	case <-over:
		require.Fail(t, "the background process ended")
	case <-time.After(200 * time.Millisecond): // it writes ten times meanwhile
	}
	require.Equal(t, said, out.Len(), "output came after the command had ended")
	shell.KillGroup(group)
	<-over
}

func TestTenMegabytesOfOutputAreBoundedInMemory(t *testing.T) {
	t.Parallel()
	var out sandbox.Buffer
	c, _, _ := sh("head -c 10485760 /dev/zero | tr '\\0' x; exit 4")
	c.Stdout = &out
	exit, err := shell.Run(t.Context(), c)
	require.NoError(t, err)
	require.Equal(t, 4, exit.Code, "the command ended by its output")
	text, truncated := out.Text()
	require.Len(t, text, sandbox.MaxOutput)
	require.True(t, truncated)
}

func TestAProgramThatIsNotThereIsAnError(t *testing.T) {
	t.Parallel()
	_, err := shell.Run(t.Context(), shell.Command{Args: []string{"/nowhere/to/be/found"}})
	require.ErrorContains(t, err, "start a command")
}

func BenchmarkRunTrue(b *testing.B) {
	for b.Loop() {
		if _, err := shell.Run(b.Context(), shell.Command{Args: []string{"sh", "-c", "true"}}); err != nil {
			b.Fatal(err)
		}
	}
}
