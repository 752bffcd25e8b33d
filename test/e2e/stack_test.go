package e2e

import (
	"context"
	"crypto/rand"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsconfig "github.com/aws/aws-sdk-go-v2/config"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/lambae/lambae/internal/awsstack"
	"github.com/lambae/lambae/sdk/lambae"
	"github.com/lambae/lambae/sdk/lambae/admin"
)

// Of localstack/bae-config.toml.
const (
	mcpServer  = "numbers"
	mcpAddress = "127.0.0.1:4580"
	provider   = "echo"
)

// patience is how long anything here may take, a cold start and a taken over
// turn included.
const patience = 90 * time.Second

// world is the stack under test.
type world struct {
	stack *awsstack.Stack
	cfg   aws.Config
	admin *admin.Client
}

func awsConfig(t *testing.T) (cfg aws.Config, stage string) {
	t.Helper()
	stage = os.Getenv("LAMBAE_E2E_STAGE")
	if stage == "" {
		t.Skip("no stack to test: run `make local-up local-deploy local-test`")
	}
	cfg, err := awsconfig.LoadDefaultConfig(t.Context())
	require.NoError(t, err)
	return cfg, stage
}

func deployed(t *testing.T) *world {
	t.Helper()
	cfg, stage := awsConfig(t)
	stack, err := awsstack.Find(t.Context(), cfg, stage)
	require.NoError(t, err)
	signed := &http.Client{Transport: awsstack.NewSigner(cfg, http.DefaultTransport)}
	a, err := admin.New(stack.AdminURL, "", &admin.Options{HTTPClient: signed})
	require.NoError(t, err)
	return &world{stack, cfg, a}
}

// theWait is shared by the server and the one test that calls the tool: the
// server's address is in the deployed configuration, so there is one of it.
var theWait = wait{make(chan struct{}, 10), make(chan struct{})}

// profile makes a profile for one test.
func (w *world) profile(t *testing.T) string {
	t.Helper()
	p, err := w.admin.CreateProfile(t.Context(), admin.ProfileSpec{
		Name: "e2e-" + rand.Text(), PrimaryProvider: provider,
		MCPServers: []string{mcpServer}, AllowedTools: []string{"shout"},
	})
	require.NoError(t, err)
	return p.ID
}

// client makes a client with a key of its own.
func (w *world) client(t *testing.T, profile string) *lambae.Client {
	t.Helper()
	key, err := w.admin.CreateKey(t.Context(), t.Name(), profile)
	require.NoError(t, err)
	c, err := lambae.New(w.stack.ClientURL, key.Key, nil)
	require.NoError(t, err)
	return c
}

// driver opens a session that its client may drive.
func driver(t *testing.T, c *lambae.Client, tools ...lambae.ClientTool) *lambae.Session {
	t.Helper()
	s, err := c.Open(t.Context(), &lambae.OpenRequest{ClientVersion: "e2e", Tools: lambae.Declarations(tools)})
	require.NoError(t, err)
	require.NoError(t, s.RegisterDriver(t.Context()))
	return s
}

// joined is another client's hold on the same session.
func joined(t *testing.T, c *lambae.Client, id string) *lambae.Session {
	t.Helper()
	s, err := c.Join(t.Context(), id, &lambae.OpenRequest{ClientVersion: "e2e"})
	require.NoError(t, err)
	require.NoError(t, s.RegisterDriver(t.Context()))
	return s
}

func patient(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// events is the whole log of a session over REST.
func events(t *testing.T, s *lambae.Session) []lambae.Event {
	t.Helper()
	var all []lambae.Event
	for e, err := range s.Events(t.Context()) {
		require.NoError(t, err)
		all = append(all, e)
	}
	return all
}

func typesOf(events []lambae.Event) []lambae.EventType {
	types := make([]lambae.EventType, len(events))
	for i, e := range events {
		types[i] = e.Type
	}
	return types
}

// wait holds calls of the tool of that name.
type wait struct{ called, released chan struct{} }

// serveNumbers is the MCP server of the configuration, in this process: the
// functions call it while the tests run.
func serveNumbers(waiting wait) *http.Server {
	server := mcp.NewServer(&mcp.Implementation{Name: mcpServer, Version: "1"}, nil)
	type pair struct{ A, B int }
	mcp.AddTool(server, &mcp.Tool{Name: "add", Description: "adds two numbers"},
		func(_ context.Context, _ *mcp.CallToolRequest, in pair) (*mcp.CallToolResult, map[string]int, error) {
			return nil, map[string]int{"sum": in.A + in.B}, nil
		})
	mcp.AddTool(server, &mcp.Tool{Name: "wait", Description: "returns when the test says so"},
		func(_ context.Context, _ *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, map[string]bool, error) {
			waiting.called <- struct{}{}
			<-waiting.released
			return nil, map[string]bool{"waited": true}, nil
		})
	mux := http.NewServeMux()
	mux.Handle("/mcp", mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil))
	return &http.Server{Addr: mcpAddress, Handler: mux, ReadHeaderTimeout: 10 * time.Second}
}

func TestMain(m *testing.M) {
	if os.Getenv("LAMBAE_E2E_STAGE") == "" {
		os.Exit(m.Run())
	}
	numbers := serveNumbers(theWait)
	go func() { _ = numbers.ListenAndServe() }()
	code := m.Run()
	_ = numbers.Close()
	os.Exit(code)
}
