//go:build claude

package conformance

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/lambae/lambae/internal/table/tabletest/ministack"
	"github.com/lambae/lambae/sdk/claude"
	"github.com/lambae/lambae/sdk/claude/dynamostore"
	"github.com/stretchr/testify/require"
)

// dynamo returns the endpoint of a DynamoDB that ends with the test, so that it
// leaves no goroutine to the check for leaks.
func dynamo(t *testing.T) string {
	if url := os.Getenv(ministack.EndpointVariable); url != "" {
		return url
	}
	s, err := ministack.Start(t.Context(), "../../..")
	require.NoError(t, err)
	t.Cleanup(s.Stop)
	return s.Endpoint
}

func dynamoClient(t *testing.T, endpoint string) *dynamodb.Client {
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return ministack.Client(endpoint, func(o *dynamodb.Options) { o.HTTPClient = &http.Client{Transport: transport} })
}

// Every machine has a home and a store value of its own; they share what the
// store keeps its entries in.
//
// Spec: resume from a store; mirror; InMemoryStore; FileStore; DynamoDB store
// Spec: agreement with the binary
func TestStoreBackedSessionResumesInAnEmptyHome(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(t *testing.T) (machine func() claude.SessionStore){
		"in memory": func(*testing.T) func() claude.SessionStore {
			store := &claude.InMemoryStore{}
			return func() claude.SessionStore { return store }
		},
		"in a folder": func(t *testing.T) func() claude.SessionStore {
			dir := t.TempDir()
			return func() claude.SessionStore { return claude.NewFileStore(dir) }
		},
		"in DynamoDB": func(t *testing.T) func() claude.SessionStore {
			endpoint, table := dynamo(t), ministack.TableName()
			require.NoError(t, dynamostore.CreateTable(t.Context(), dynamoClient(t, endpoint), table))
			return func() claude.SessionStore { return dynamostore.New(dynamoClient(t, endpoint), table) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			machine := open(t)
			p := newPlace(t)
			opts := p.options(t)
			opts.SessionStore = machine()
			all, first := run(t, claude.Query(t.Context(), claude.Text("remember this"), opts))
			requireMirrored(t, all)
			stored := func() []string {
				return conversation(t, first.SessionID, claude.SessionOptions{Store: machine(), Dir: p.project})
			}
			require.Equal(t, []string{"remember this", "ok: remember this"}, stored())

			p.emptyHome(t)
			opts = p.options(t)
			opts.SessionStore, opts.Resume = machine(), first.SessionID
			all, second := run(t, claude.Query(t.Context(), claude.Text("what was it?"), opts))
			requireMirrored(t, all)
			require.Equal(t, first.SessionID, second.SessionID)
			calls := p.model.mainCalls()
			require.Contains(t, calls[len(calls)-1].body, "remember this")
			require.Equal(t, []string{"remember this", "ok: remember this", "what was it?", "ok: what was it?"}, stored())
			left, err := filepath.Glob(filepath.Join(p.config, "projects", "*", "*.jsonl"))
			require.NoError(t, err)
			require.Empty(t, left, "the resumed session ran in a temporary folder")

			opts = p.options(t)
			opts.SessionStore, opts.Continue = machine(), true
			all, third := run(t, claude.Query(t.Context(), claude.Text("and again"), opts))
			requireMirrored(t, all)
			require.Equal(t, first.SessionID, third.SessionID)
			require.Len(t, stored(), 6)
			list, err := claude.ListSessions(t.Context(), &claude.ListOptions{SessionOptions: claude.SessionOptions{Store: machine(), Dir: p.project}})
			require.NoError(t, err)
			require.Len(t, list, 1)
			require.Equal(t, "remember this", list[0].FirstPrompt)
		})
	}
}

// emptyHome makes the place another machine's: claude has never run there.
func (p *place) emptyHome(t *testing.T) {
	require.NoError(t, os.RemoveAll(p.home))
	require.NoError(t, os.MkdirAll(p.config, 0o700))
}

func requireMirrored(t *testing.T, all []claude.Message) {
	t.Helper()
	for _, m := range all {
		if system, ok := m.(*claude.SystemMessage); ok {
			failure, failed := system.MirrorError()
			require.False(t, failed, failure.Error)
		}
	}
}

// Spec: examples; DynamoDB store; resume from a store
// Spec: agreement with the binary
func TestStoreExampleGoesOnWithASessionOnAnotherMachine(t *testing.T) {
	t.Parallel()
	endpoint, table, p := dynamo(t), ministack.TableName(), newPlace(t)
	example := filepath.Join(t.TempDir(), "store")
	out, err := exec.Command("go", "build", "-o", example, "../examples/store").CombinedOutput()
	require.NoError(t, err, string(out))
	said := regexp.MustCompile(`(?m)^ok: (.*)\nsession (\S+)$`)
	start := func(args ...string) (words, session string) {
		cmd := exec.Command(example, append([]string{"-table", table}, args...)...)
		cmd.Dir = p.project
		cmd.Env = append(p.env(), "PATH="+filepath.Dir(binary(t))+string(filepath.ListSeparator)+os.Getenv("PATH"),
			"AWS_ENDPOINT_URL="+endpoint, "AWS_REGION=us-east-1", "AWS_ACCESS_KEY_ID=test", "AWS_SECRET_ACCESS_KEY=test",
			"ANTHROPIC_MODEL=claude-sonnet-5")
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, string(out))
		require.NotContains(t, string(out), "not in the table")
		found := said.FindStringSubmatch(string(out))
		require.Len(t, found, 3, string(out))
		return found[1], found[2]
	}

	words, id := start("Remember the number 42")
	require.Equal(t, "Remember the number 42", words)
	p.emptyHome(t)
	words, resumed := start("-resume", id, "What was the number?")
	require.Equal(t, "What was the number?", words)
	require.Equal(t, id, resumed)
	calls := p.model.mainCalls()
	require.Contains(t, calls[len(calls)-1].body, "Remember the number 42")
	store := dynamostore.New(dynamoClient(t, endpoint), table)
	require.Equal(t, []string{"Remember the number 42", "ok: Remember the number 42", "What was the number?", "ok: What was the number?"},
		conversation(t, id, claude.SessionOptions{Store: store, Dir: p.project}))
}
