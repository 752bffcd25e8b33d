package mcp

import (
	"bufio"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestServersDieWithAProcessThatIsKilled(t *testing.T) {
	t.Parallel()
	parent := exec.Command(os.Args[0])
	parent.Env = append(os.Environ(), modeVariable+"=parent")
	out, err := parent.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, parent.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	pid := strings.TrimSpace(line)
	require.True(t, alive(pid))
	require.NoError(t, parent.Process.Kill())
	eventually(t, "the server, which ignores the end of its input, is gone", func() bool { return !alive(pid) })
	require.Error(t, parent.Wait())
}
