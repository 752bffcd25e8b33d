// Package lambaetest is a lambae server in memory, for tests of programs that
// use the SDK: a model played by a function, faults where the test wants them,
// ids and times that are the same in every run.
//
// It speaks the whole client protocol and the admin API. It has no time-outs:
// a paused turn waits for ever, and a queued one with it.
package lambaetest

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"time"

	"github.com/lambae/lambae/sdk/lambae"
	"github.com/lambae/lambae/sdk/lambae/admin"
)

// Options say what the server has. The zero value is a server whose model
// repeats what it is told.
type Options struct {
	Model Model
	// ServerTools are tools that the server runs itself, as if an MCP server
	// named "test" had them.
	ServerTools map[string]func(input []byte) string
	// Exec plays the remote sandbox; default is a shell that repeats its command.
	Exec func(command string) lambae.ExecResult
	// Fault is asked for every answer what shall go wrong with it; nil is nothing.
	// A call is named by its method for JSON-RPC (session.subscribe) and by
	// method and pattern for others (POST /api/v1/sessions/{id}/join).
	Fault func(call string) *Fault
	// AllowedTools and Images are those of the first profile.
	AllowedTools, Images []string
}

// Model answers a conversation with content blocks. An error is a provider that
// failed.
type Model func(turn Turn) ([]lambae.Block, error)

// Turn is what a model is asked.
type Turn struct {
	Messages []lambae.Message // ends with the user's
	Tools    []lambae.Tool
}

// Echo is the model that repeats what it is told.
func Echo(turn Turn) ([]lambae.Block, error) {
	said := turn.Messages[len(turn.Messages)-1].Content.Text()
	return []lambae.Block{lambae.TextBlock("You said: " + said)}, nil
}

// Server is a running server. It starts with the profile "main" and a client key.
type Server struct {
	URL       string // of the client API
	AdminURL  string
	ClientKey string
	AdminKey  string
	ProfileID string

	options       Options
	client, admin *httptest.Server

	mu       sync.Mutex
	changed  *sync.Cond // anything at all changed
	serial   int        // of ids, keys and times
	closed   bool
	profiles []*admin.Profile
	keys     []*clientKey
	sessions []*session
	answers  map[string]*stored // by idempotency key
}

// New starts a server; close it after use.
func New(options Options) *Server {
	if options.Model == nil {
		options.Model = Echo
	}
	if options.Exec == nil {
		options.Exec = func(command string) lambae.ExecResult { return lambae.ExecResult{Stdout: command + "\n"} }
	}
	s := &Server{options: options, answers: map[string]*stored{}}
	s.changed = sync.NewCond(&s.mu)
	s.AdminKey = s.newSecret("bae_admin_")
	profile := s.newProfile(admin.ProfileSpec{
		Name: "main", PrimaryProvider: "mock", AllowedTools: options.AllowedTools, AvailableSandboxes: options.Images,
	})
	s.ProfileID = profile.ID
	s.ClientKey = s.newKey("first", profile.ID).secret
	s.client = httptest.NewServer(s.clientHandler())
	s.admin = httptest.NewServer(s.adminHandler())
	s.URL, s.AdminURL = s.client.URL, s.admin.URL
	return s
}

// Close stops the server and cuts every connection.
func (s *Server) Close() {
	s.mu.Lock()
	s.closed = true
	s.changed.Broadcast()
	s.mu.Unlock()
	s.client.CloseClientConnections()
	s.client.Close()
	s.admin.Close()
}

// Client is a client with the first key that retries without waiting long.
func (s *Server) Client() *lambae.Client {
	client, err := lambae.New(s.URL, s.ClientKey, &lambae.Options{
		HTTPClient: s.client.Client(), Backoff: func(int) time.Duration { return time.Millisecond },
	})
	if err != nil {
		panic(err) // the address is our own
	}
	return client
}

// NewClientKey makes another client key of the first profile: its id and secret.
func (s *Server) NewClientKey(name string) (id, secret string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := s.newKey(name, s.ProfileID)
	return key.ID, key.secret
}

// clientKey is a client key and its secret.
type clientKey struct {
	admin.Key
	secret string
}

// newID counts in front, so that ids differ where they are cut short.
func (s *Server) newID(prefix string) string {
	s.serial++
	return fmt.Sprintf("%s%08x%024d", prefix, s.serial, 0)
}

func (s *Server) newSecret(prefix string) string {
	s.serial++
	return fmt.Sprintf("%s%048x", prefix, s.serial)
}

// now moves on by 1 ms with every use.
func (s *Server) now() time.Time {
	s.serial++
	return time.Date(2026, 7, 6, 18, 26, 10, 0, time.UTC).Add(time.Duration(s.serial) * time.Millisecond)
}

func (s *Server) newKey(name, profileID string) *clientKey {
	key := &clientKey{secret: s.newSecret("bae_")}
	key.Key = admin.Key{ID: s.newID("key_"), Name: name, Prefix: key.secret[:8], ProfileID: profileID, CreatedAt: s.now()}
	s.keys = append(s.keys, key)
	return key
}

func (s *Server) newProfile(spec admin.ProfileSpec) *admin.Profile {
	for _, list := range []*[]string{&spec.FallbackProviders, &spec.MCPServers, &spec.AllowedTools, &spec.AvailableSandboxes} {
		*list = append([]string{}, *list...)
	}
	now := s.now()
	profile := &admin.Profile{ID: s.newID("pro_"), ProfileSpec: spec, CreatedAt: now, UpdatedAt: now}
	s.profiles = append(s.profiles, profile)
	return profile
}

func (s *Server) profile(id string) *admin.Profile {
	for _, profile := range s.profiles {
		if profile.ID == id {
			return profile
		}
	}
	return nil
}

// locked runs a handler that answers at once, under the lock.
func (s *Server) locked(handle func(r *http.Request) (status int, answer any)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		status, answer := handle(r)
		s.mu.Unlock()
		s.respond(w, r.Pattern, status, answer)
	}
}

// SessionCount is how many sessions were opened so far.
func (s *Server) SessionCount() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.sessions)
}
