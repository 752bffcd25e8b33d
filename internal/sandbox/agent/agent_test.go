//go:build unix

package agent_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"

	"github.com/lambae/lambae/internal/sandbox/agent"
	"github.com/lambae/lambae/internal/sandbox/wire"
)

// server plays the other side of package wire.
type server struct {
	*httptest.Server
	t *testing.T

	mu       sync.Mutex
	orders   []wire.Order
	outcomes map[int64][]wire.Outcome // as told, also those that were refused
	output   strings.Builder
	refuse   int // so many of the next results are answered 503
	unwanted bool
	down     bool // everything is answered 503
	repeat   bool // every fetch is answered with all orders
	rings    chan struct{}
	bells    int
	polls    int
}

func serve(t *testing.T, doorbell bool) *server {
	s := &server{t: t, outcomes: map[int64][]wire.Outcome{}, rings: make(chan struct{}, 100)}
	mux := http.NewServeMux()
	const base = "/api/v1/sandboxes/sbx_1"
	answer := func(w http.ResponseWriter, v any) { _ = json.NewEncoder(w).Encode(v) }
	mux.HandleFunc("POST "+base+"/enroll", func(w http.ResponseWriter, r *http.Request) {
		require.Equal(t, "Bearer code", r.Header.Get("Authorization"))
		var e wire.Enrolled
		if doorbell {
			e.Doorbell = base + "/doorbell"
		}
		answer(w, e)
	})
	mux.HandleFunc("GET "+base+"/commands", func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.polls++
		var after int64
		require.NoError(t, json.Unmarshal([]byte(r.URL.Query().Get("after")), &after))
		out := wire.Orders{Orders: []wire.Order{}}
		for _, o := range s.orders {
			if o.N > after || s.repeat {
				out.Orders = append(out.Orders, o)
			}
		}
		answer(w, out)
	})
	mux.HandleFunc("POST "+base+"/results", func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		var out wire.Outcome
		require.NoError(t, json.NewDecoder(r.Body).Decode(&out))
		s.outcomes[out.N] = append(s.outcomes[out.N], out)
		if s.refuse > 0 {
			s.refuse--
			w.WriteHeader(503)
		}
	})
	mux.HandleFunc("POST "+base+"/output", func(_ http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		var out wire.Output
		require.NoError(t, json.NewDecoder(r.Body).Decode(&out))
		s.output.WriteString(out.Stream + ":" + out.Text)
	})
	mux.HandleFunc("GET "+base+"/doorbell", func(w http.ResponseWriter, r *http.Request) {
		c, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		defer c.CloseNow()
		s.mu.Lock()
		s.bells++
		s.mu.Unlock()
		for range s.rings {
			if c.Write(r.Context(), websocket.MessageText, []byte("ring")) != nil {
				return
			}
		}
	})
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		unwanted, down := s.unwanted, s.down
		s.mu.Unlock()
		switch {
		case down:
			w.WriteHeader(503)
		case unwanted:
			w.WriteHeader(410)
		default:
			mux.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(func() {
		close(s.rings)
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

func (s *server) set(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

func (s *server) order(o wire.Order) { s.set(func() { s.orders = append(s.orders, o) }) }

// run starts an agent and returns how it ends.
func (s *server) run(o agent.Options) (ended <-chan error, dir string) {
	dir = s.t.TempDir()
	o.Boot = wire.Boot{URL: s.URL, Sandbox: "sbx_1", Code: "code", Dir: dir}
	o.Env = agent.CommandEnv(append(os.Environ(), "BAE_SECRET=x", "AWS_SESSION_TOKEN=x", "ECS_AGENT_URI=x", "LAMBAE_BOOT=x"))
	if o.Poll == 0 {
		o.Poll, o.PollMax = 2*time.Millisecond, 20*time.Millisecond
	}
	ctx, cancel := context.WithCancel(context.Background())
	end := make(chan error, 1)
	done := make(chan struct{})
	go func() {
		end <- agent.New(o).Run(ctx)
		close(done)
	}()
	s.t.Cleanup(func() {
		cancel()
		<-done
	})
	return end, dir
}

// told waits for the outcome of an order.
func (s *server) told(n int64) (out wire.Outcome) {
	s.t.Helper()
	require.Eventually(s.t, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		if list := s.outcomes[n]; len(list) > 0 {
			out = list[len(list)-1]
			return true
		}
		return false
	}, 20*time.Second, time.Millisecond, "order %d has no outcome", n)
	return out
}

func TestOrdersRunOnceThoughFetchedAgain(t *testing.T) {
	t.Parallel()
	s := serve(t, false)
	s.repeat = true
	s.order(wire.Order{N: 1, Command: "echo x >>ran; cat", Stdin: "in"})
	_, dir := s.run(agent.Options{})
	require.Equal(t, "in", s.told(1).Result.Stdout)
	s.order(wire.Order{N: 2, Command: "true"})
	s.told(2)
	b, err := os.ReadFile(filepath.Join(dir, "ran"))
	require.NoError(t, err)
	require.Equal(t, "x\n", string(b))
}

func TestAnOutcomeIsToldUntilItIsAcknowledged(t *testing.T) {
	t.Parallel()
	s := serve(t, false)
	s.refuse = 3
	s.order(wire.Order{N: 1, Command: "exit 3"})
	s.run(agent.Options{})
	require.Eventually(t, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.outcomes[1]) == 4
	}, 20*time.Second, time.Millisecond)
	require.Equal(t, 3, s.told(1).Result.ExitCode)
}

func TestADoorbellMakesPollingUnnecessary(t *testing.T) {
	t.Parallel()
	s := serve(t, true)
	s.run(agent.Options{})
	require.Eventually(t, func() bool { s.mu.Lock(); defer s.mu.Unlock(); return s.bells == 1 && s.polls >= 2 }, 20*time.Second, time.Millisecond)
	var before int
	s.set(func() { before = s.polls })
	s.order(wire.Order{N: 1, Command: "echo rung"})
	s.rings <- struct{}{}
	require.Equal(t, "rung\n", s.told(1).Result.Stdout)
	s.mu.Lock()
	defer s.mu.Unlock()
	require.LessOrEqual(t, s.polls-before, 3, "it asks all the time")
}

func TestWithoutADoorbellItAsksAgainAndAgain(t *testing.T) {
	t.Parallel()
	s := serve(t, false)
	s.run(agent.Options{})
	require.Eventually(t, func() bool { s.mu.Lock(); defer s.mu.Unlock(); return s.polls > 5 }, 20*time.Second, time.Millisecond)
	s.order(wire.Order{N: 1, Command: "echo found"})
	require.Equal(t, "found\n", s.told(1).Result.Stdout)
}

func TestAKilledOrderEndsWithItsProcesses(t *testing.T) {
	t.Parallel()
	s := serve(t, false)
	s.order(wire.Order{N: 1, Command: "sleep 7641 & sleep 7641"})
	s.order(wire.Order{N: 2, Kill: 1})
	s.order(wire.Order{N: 3, Kill: 99}) // of nothing
	s.order(wire.Order{N: 4, Command: "sleep 7641", TimeoutMS: 50})
	s.run(agent.Options{})
	require.Equal(t, 137, s.told(1).Result.ExitCode)
	require.True(t, s.told(4).Result.TimedOut)
}

func TestWhatIsNotWantedEndsWithAllItRuns(t *testing.T) {
	t.Parallel()
	s := serve(t, false)
	s.order(wire.Order{N: 1, Command: "(sleep 0.5; echo >late) >/dev/null 2>&1 </dev/null & touch began; sleep 60"})
	ended, dir := s.run(agent.Options{})
	require.Eventually(t, func() bool { _, err := os.Stat(filepath.Join(dir, "began")); return err == nil }, 20*time.Second, time.Millisecond)
	s.set(func() { s.unwanted = true })
	require.ErrorIs(t, <-ended, agent.ErrUnwanted)
	require.Never(t, func() bool { _, err := os.Stat(filepath.Join(dir, "late")); return err == nil }, 700*time.Millisecond, 50*time.Millisecond)
}

func TestAServerThatIsAwayForTooLongEndsIt(t *testing.T) {
	t.Parallel()
	s := serve(t, false)
	ended, _ := s.run(agent.Options{GoneAfter: 400 * time.Millisecond})
	require.Eventually(t, func() bool { s.mu.Lock(); defer s.mu.Unlock(); return s.polls > 0 }, 20*time.Second, time.Millisecond)
	s.set(func() { s.down = true })
	began := time.Now()
	require.ErrorIs(t, <-ended, agent.ErrServerGone)
	require.GreaterOrEqual(t, time.Since(began), 300*time.Millisecond, "it did not wait")
}

func TestAServerThatComesBackFindsEverything(t *testing.T) {
	t.Parallel()
	s := serve(t, true)
	s.set(func() { s.down = true })
	s.run(agent.Options{})
	s.order(wire.Order{N: 1, Command: "echo a"})
	s.set(func() { s.down = false })
	require.Equal(t, "a\n", s.told(1).Result.Stdout)
	s.set(func() { s.down = true })
	s.CloseClientConnections()
	s.order(wire.Order{N: 2, Command: "echo b"})
	s.set(func() { s.down = false })
	require.Equal(t, "b\n", s.told(2).Result.Stdout)
}

func TestWatchedOutputComesBeforeTheOutcome(t *testing.T) {
	t.Parallel()
	s := serve(t, false)
	s.order(wire.Order{N: 1, Command: "echo a; echo b", Watched: true})
	s.run(agent.Options{})
	require.Equal(t, "a\nb\n", s.told(1).Result.Stdout)
	s.mu.Lock()
	defer s.mu.Unlock()
	require.Equal(t, "a\nb\n", strings.ReplaceAll(s.output.String(), "stdout:", ""))
}

func TestCommandsGetACleanedEnvironment(t *testing.T) {
	t.Parallel()
	env := strings.Join(agent.CommandEnv([]string{"PATH=p", "HOME=h", "BAE_X=1", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI=1", "ECS_CONTAINER_METADATA_URI_V4=1",
		"LAMBAE_BOOT=1", "LAMBAE_SANDBOX=sbx_1", "MY_AWS_X=kept"}), " ")
	require.Equal(t, "PATH=p HOME=h LAMBAE_SANDBOX=sbx_1 MY_AWS_X=kept", env)
}

func TestSandboxdIsNotStartedByHand(t *testing.T) {
	t.Parallel()
	for _, in := range []string{"", "{}", "not json", `{"url":"http://x"}`} {
		var said strings.Builder
		require.Equal(t, 2, agent.Main(strings.NewReader(in), &said, nil))
		require.Contains(t, said.String(), "is not started by hand")
	}
}

func TestALockIsHeldByOneProcess(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lock")
	f, err := agent.Lock(path)
	require.NoError(t, err)
	_, err = agent.Lock(path)
	require.Error(t, err)
	require.NoError(t, f.Close())
	f, err = agent.Lock(path)
	require.NoError(t, err)
	require.NoError(t, f.Close())
}
