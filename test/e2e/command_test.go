package e2e

import (
	"crypto/rand"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The command line finds the stack by its stage, and signs.
func TestTheCommandLineFindsTheStack(t *testing.T) {
	t.Parallel()
	_, stage := awsConfig(t)
	dir := t.TempDir()
	binary := filepath.Join(dir, "lambae")
	out, err := exec.Command("go", "build", "-o", binary, "github.com/lambae/lambae/cmd/lambae").CombinedOutput()
	require.NoError(t, err, "%s", out)
	lambae := func(input string, words ...string) string {
		cmd := exec.CommandContext(patient(t), binary, words...)
		cmd.Env = append(os.Environ(), "LAMBAE_HOME="+filepath.Join(dir, "home"))
		cmd.Stdin = strings.NewReader(input)
		out, err := cmd.Output()
		require.NoError(t, err, "%v: %s", words, err)
		return string(out)
	}
	name := "e2e-" + rand.Text()
	lambae("", "admin", "--aws", stage, "profile", "create", "--name", name, "--provider", provider)
	require.Contains(t, lambae("", "admin", "profile", "list", "--aws", stage), name)
	var key string
	for word := range strings.FieldsSeq(lambae("", "admin", "--aws", stage, "key", "create", "--name", name, "--profile", name)) {
		if strings.HasPrefix(word, "bae_") {
			key = word
		}
	}
	require.NotEmpty(t, key)
	require.Equal(t, "You said: hello\n", lambae("hello\n", "chat", "--aws", stage, "--key", key))
}
