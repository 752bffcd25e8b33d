package agent_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lambae/lambae/internal/sandbox/agent"
)

// initVariable makes this program an init process of its descendants, as it would
// be in a container, that runs a shell command.
const initVariable = "LAMBAE_TEST_INIT"

func TestMain(m *testing.M) {
	command, isInit := os.LookupEnv(initVariable)
	if !isInit {
		os.Exit(m.Run())
	}
	const setChildSubreaper = 36
	if _, _, errno := syscall.RawSyscall(syscall.SYS_PRCTL, setChildSubreaper, 1, 0); errno != 0 {
		fmt.Fprintln(os.Stderr, errno)
		os.Exit(1)
	}
	code, err := agent.Init([]string{"/bin/sh", "-c", command})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func asInit(t *testing.T, command string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(os.Environ(), initVariable+"="+command)
	return cmd
}

func TestTheFirstProcessEndsAsItsChildDoes(t *testing.T) {
	t.Parallel()
	for command, code := range map[string]int{"true": 0, "exit 7": 7, "kill -9 $$": 137} {
		cmd := asInit(t, command)
		_ = cmd.Run()
		require.Equal(t, code, cmd.ProcessState.ExitCode(), command)
	}
}

func TestTheFirstProcessLeavesNoZombies(t *testing.T) {
	t.Parallel()
	out, err := asInit(t, `for i in 1 2 3; do (sleep 0 &) ; done; sleep 0.5
cat /proc/[0-9]*/stat 2>/dev/null | awk -v p=$PPID '$4 == p && $3 == "Z"' | wc -l`).Output()
	require.NoError(t, err)
	require.Equal(t, "0\n", string(out))
}

func TestTheFirstProcessPassesSignalsOn(t *testing.T) {
	t.Parallel()
	cmd := asInit(t, "trap 'exit 5' TERM; echo ready; while :; do sleep 0.05; done")
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	require.True(t, bufio.NewScanner(out).Scan())
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	_ = cmd.Wait()
	require.Equal(t, 5, cmd.ProcessState.ExitCode())
}
