package ministack_test

import (
	"net"
	"net/url"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/stretchr/testify/require"

	"github.com/lambae/lambae/internal/table/tabletest/ministack"
)

const childVariable = "LAMBAE_TEST_MINISTACK_CHILD"

func TestTheEndpointAnswers(t *testing.T) {
	t.Parallel()
	client := ministack.Client(ministack.Endpoint(t))
	_, err := client.ListTables(t.Context(), &dynamodb.ListTablesInput{})
	require.NoError(t, err)
}

func TestTheServerIsSharedByAProcess(t *testing.T) {
	t.Parallel()
	require.Equal(t, ministack.Endpoint(t), ministack.Endpoint(t))
}

func TestStoppingEndsTheServer(t *testing.T) {
	t.Parallel()
	s, err := ministack.Start(t.Context(), "../../../..")
	require.NoError(t, err)
	require.True(t, listens(t, s.Endpoint))
	s.Stop()
	require.False(t, listens(t, s.Endpoint))
}

func TestAFolderWithoutTheVirtualEnvironmentSaysWhatToDo(t *testing.T) {
	t.Parallel()
	_, err := ministack.Start(t.Context(), t.TempDir())
	require.ErrorIs(t, err, ministack.ErrNotInstalled)
	require.ErrorContains(t, err, "make ministack-install")
}

// The child prints its endpoint and waits to be killed.
func TestTheServerEndsWithAKilledProcess(t *testing.T) {
	t.Parallel()
	if os.Getenv(childVariable) != "" {
		s, err := ministack.Start(t.Context(), "../../../..")
		require.NoError(t, err)
		_, err = os.Stdout.WriteString(s.Endpoint)
		require.NoError(t, err)
		select {}
	}
	child := exec.Command(os.Args[0], "-test.run=^TestTheServerEndsWithAKilledProcess$")
	child.Env = append(os.Environ(), childVariable+"=1")
	out, err := child.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, child.Start())
	buf := make([]byte, 100)
	n, err := out.Read(buf)
	require.NoError(t, err)
	endpoint := string(buf[:n])
	require.True(t, listens(t, endpoint), "it listens at %q", endpoint)
	require.NoError(t, child.Process.Kill())
	_ = child.Wait()
	require.Eventually(t, func() bool { return !listens(t, endpoint) }, 10*time.Second, 20*time.Millisecond)
}

func listens(t *testing.T, endpoint string) bool {
	u, err := url.Parse(endpoint)
	require.NoError(t, err)
	c, err := net.Dial("tcp", u.Host)
	if err != nil {
		return false
	}
	return c.Close() == nil
}
