package main

import (
	"bytes"
	"context"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lambae/lambae/sdk/lambae"
	"github.com/lambae/lambae/sdk/lambae/lambaetest"
)

var update = flag.Bool("update", false, "write the golden files anew")

// golden compares got with the file testdata/name.
func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		require.NoError(t, os.WriteFile(file, []byte(got), 0o644))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err, "run the test with -update once")
	require.Equal(t, string(want), got)
}

// desk is a place to call lambae from: a server, a folder with its keys, an
// environment.
type desk struct {
	server *lambaetest.Server
	home   home
	env    map[string]string
}

func newDesk(t *testing.T, options lambaetest.Options) *desk {
	server := lambaetest.New(options)
	t.Cleanup(server.Close)
	folder := home(t.TempDir())
	require.NoError(t, os.WriteFile(folder.clientKeyFile(), []byte(server.ClientKey+"\n"), 0o600))
	require.NoError(t, os.WriteFile(folder.adminKeyFile(), []byte(server.AdminKey+"\n"), 0o600))
	return &desk{server, folder, map[string]string{
		"LAMBAE_HOME": string(folder), "BAE_URL": server.URL, "BAE_ADMIN_URL": server.AdminURL,
	}}
}

func (d *desk) getenv(name string) string { return d.env[name] }

// outcome is what one call of lambae did.
type outcome struct {
	code           int
	stdout, stderr string
}

func (d *desk) call(t *testing.T, stdin string, args ...string) outcome {
	var stdout, stderr bytes.Buffer
	code := run(t.Context(), args, strings.NewReader(stdin), &stdout, &stderr, d.getenv)
	return outcome{code, stdout.String(), stderr.String()}
}

// ok is a call that succeeds; it returns its standard output.
func (d *desk) ok(t *testing.T, args ...string) string {
	t.Helper()
	got := d.call(t, "", args...)
	require.Equal(t, exitOK, got.code, got.stderr)
	return got.stdout
}

// session opens a session outside of the command line, as a driver.
func (d *desk) session(t *testing.T) *lambae.Session {
	session, err := d.server.Client().Open(t.Context(), &lambae.OpenRequest{ClientVersion: "kit/1"})
	require.NoError(t, err)
	require.NoError(t, session.RegisterDriver(t.Context()))
	return session
}

// scroll is output that a test can wait for.
type scroll struct {
	mu      sync.Mutex
	changed *sync.Cond
	text    strings.Builder
}

func newScroll() *scroll {
	s := &scroll{}
	s.changed = sync.NewCond(&s.mu)
	return s
}

func (s *scroll) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changed.Broadcast()
	return s.text.Write(p)
}

func (s *scroll) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// await waits until the output holds text.
func (s *scroll) await(t *testing.T, text string) {
	t.Helper()
	late := time.AfterFunc(10*time.Second, s.changed.Broadcast)
	defer late.Stop()
	end := time.Now().Add(10 * time.Second)
	s.mu.Lock()
	defer s.mu.Unlock()
	for !strings.Contains(s.text.String(), text) {
		require.True(t, time.Now().Before(end), "%q never came; there is:\n%s", text, s.text.String())
		s.changed.Wait()
	}
}

// running is a call of lambae that has not ended yet.
type running struct {
	stdin          *io.PipeWriter
	stdout, stderr *scroll
	interrupts     chan os.Signal
	code           chan int
}

// start calls lambae and leaves it running; its input is open.
func (d *desk) start(t *testing.T, args ...string) *running {
	input, stdin := io.Pipe()
	r := &running{stdin, newScroll(), newScroll(), make(chan os.Signal, 1), make(chan int, 1)}
	world := &app{
		stdin: input, stdout: r.stdout, stderr: r.stderr, env: d.getenv, interrupts: r.interrupts,
		now: func() time.Time { return time.Date(2026, 7, 6, 18, 26, 10, 0, time.UTC) },
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() { r.code <- world.run(ctx, args) }()
	t.Cleanup(func() {
		cancel()
		stdin.Close()
	})
	return r
}

func (r *running) say(t *testing.T, line string) {
	t.Helper()
	_, err := io.WriteString(r.stdin, line+"\n")
	require.NoError(t, err)
}
