package ministack

import (
	"bytes"
	"context"
	"crypto/rand"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"
)

//go:embed run.py
var runPy string

const (
	startWithin = 60 * time.Second
	// portTries: the port is free when it is chosen, and may be taken by somebody
	// else before MiniStack listens on it.
	portTries = 3
)

// ErrNotInstalled is returned by [Start] when the virtual environment is missing.
var ErrNotInstalled = errors.New(`MiniStack is not installed: run "make ministack-install"`)

// A Server is a running MiniStack that ends with this process at the latest.
type Server struct {
	// Endpoint is its URL, for AWS_ENDPOINT_URL.
	Endpoint string

	cmd   *exec.Cmd
	stdin io.Closer
	ended chan struct{} // closed when the process has ended
	dir   string
	log   *logBuffer
}

// Start starts a MiniStack from the virtual environment .venv in the folder
// root, on a free port, with an empty memory and nothing kept on disk. It runs
// DynamoDB only, or the services that the environment variable SERVICES names.
func Start(ctx context.Context, root string) (*Server, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	python := filepath.Join(root, ".venv", "bin", "python")
	if runtime.GOOS == "windows" {
		python = filepath.Join(root, ".venv", "Scripts", "python.exe")
	}
	if _, err := os.Stat(python); err != nil {
		return nil, ErrNotInstalled
	}
	ctx, cancel := context.WithTimeout(ctx, startWithin)
	defer cancel()
	var errs []error
	for range portTries {
		s, err := startOnce(ctx, python)
		if err == nil {
			return s, nil
		}
		errs = append(errs, err)
		if ctx.Err() != nil {
			break
		}
	}
	return nil, fmt.Errorf("start MiniStack: %w", errors.Join(errs...))
}

func startOnce(ctx context.Context, python string) (*Server, error) {
	port, err := freePort()
	if err != nil {
		return nil, fmt.Errorf("find a free port: %w", err)
	}
	dir, err := os.MkdirTemp("", "ministack-")
	if err != nil {
		return nil, err
	}
	// The version it reports tells this server from another one that took the port.
	name := "test-" + rand.Text()
	s := &Server{Endpoint: "http://127.0.0.1:" + port, ended: make(chan struct{}), dir: dir, log: &logBuffer{}}
	if err := s.start(python, environment(port, dir, name)); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	if err := s.waitReady(ctx, name); err != nil {
		s.Stop()
		return nil, fmt.Errorf("%w; it said: %s", err, s.log)
	}
	return s, nil
}

func (s *Server) start(python string, env []string) (err error) {
	s.cmd = exec.Command(python, "-c", runPy)
	s.cmd.Dir = s.dir
	s.cmd.Env = env
	s.cmd.Stdout, s.cmd.Stderr = s.log, s.log
	if s.stdin, err = s.cmd.StdinPipe(); err != nil {
		return err
	}
	if err := s.cmd.Start(); err != nil {
		return err
	}
	go func() {
		_ = s.cmd.Wait()
		close(s.ended)
	}()
	return nil
}

func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer func() { _ = l.Close() }()
	return strconv.Itoa(l.Addr().(*net.TCPAddr).Port), nil
}

// environment leaves MiniStack no way to anything outside of its folder: no
// other listeners, no state from earlier, no Docker.
func environment(port, dir, name string) []string {
	services := os.Getenv("SERVICES")
	if services == "" {
		services = "dynamodb"
	}
	return append(os.Environ(),
		"GATEWAY_PORT="+port,
		"BIND_HOST=127.0.0.1",
		"SERVICES="+services,
		"MINISTACK_VERSION="+name,
		"LOG_LEVEL=WARNING",
		"TMPDIR="+dir,
		"STATE_DIR="+filepath.Join(dir, "state"),
		"S3_DATA_DIR="+filepath.Join(dir, "s3"),
		"PERSIST_STATE=0",
		"SFTP_ENABLED=0",
		"IOT_MTLS_ENABLED=0",
		"DOCKER_HOST=unix://"+filepath.Join(dir, "no-docker.sock"),
	)
}

// waitReady asks until the server answers with its name.
func (s *Server) waitReady(ctx context.Context, name string) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		version, err := s.version(ctx)
		if version == name {
			return nil
		}
		select {
		case <-s.ended:
			return errors.New("the process has ended")
		case <-ctx.Done():
			return fmt.Errorf("not ready in time: %w", errors.Join(ctx.Err(), err))
		case <-tick.C:
		}
	}
}

func (s *Server) version(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.Endpoint+"/_ministack/health", nil)
	if err != nil {
		return "", err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer func() { _ = res.Body.Close() }()
	var health struct{ Version string }
	if err := json.NewDecoder(res.Body).Decode(&health); err != nil {
		return "", fmt.Errorf("read its health: %w", err)
	}
	return health.Version, nil
}

// Stop ends the server and waits for that.
func (s *Server) Stop() {
	_ = s.stdin.Close()
	select {
	case <-s.ended:
	case <-time.After(5 * time.Second):
		_ = s.cmd.Process.Kill()
		<-s.ended
	}
	_ = os.RemoveAll(s.dir) // when it ended otherwise, it is still there
}

// A logBuffer keeps the beginning of what the server says.
type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if room := 16<<10 - b.buf.Len(); room > 0 {
		b.buf.Write(p[:min(room, len(p))])
	}
	return len(p), nil
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if s := strings.TrimSpace(b.buf.String()); s != "" {
		return s
	}
	return "nothing"
}
