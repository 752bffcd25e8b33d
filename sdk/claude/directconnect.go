package claude

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"
)

const (
	// directOpenTimeout is how long the socket may take to open.
	directOpenTimeout = 15 * time.Second
	// directDeleteTimeout bounds the request that deletes a session.
	directDeleteTimeout = 10 * time.Second
)

// DirectConnectTarget is a server to connect to.
type DirectConnectTarget struct {
	URL   string // http://host:port
	Token string // bearer token; may be empty
}

// ParseDirectConnectURL reads cc://host:port/token.
func ParseDirectConnectURL(raw string) (DirectConnectTarget, error) {
	u, err := url.Parse(raw)
	if err != nil {
		return DirectConnectTarget{}, errors.New("not a direct connect URL; it looks like cc://host:port/token")
	}
	switch {
	case u.Scheme == "cc+unix":
		return DirectConnectTarget{}, fmt.Errorf("direct connect over a Unix socket is not supported: %w; use cc://host:port/token", errors.ErrUnsupported)
	case u.Scheme != "cc":
		return DirectConnectTarget{}, fmt.Errorf("direct connect URL has scheme %q; it looks like cc://host:port/token", u.Scheme)
	case u.Hostname() == "":
		return DirectConnectTarget{}, errors.New("direct connect URL names no host; it looks like cc://host:port/token")
	}
	return DirectConnectTarget{URL: "http://" + u.Host, Token: strings.TrimPrefix(u.Path, "/")}, nil
}

// DirectConnectOptions say what session to create, and how to stay connected.
type DirectConnectOptions struct {
	Cwd            string // working directory on the server
	SessionKey     string // of the caller's choice
	PermissionMode PermissionMode
	// DeleteSessionOnClose deletes the session when this side closes the
	// connection. A connection that the server closed leaves it alone.
	DeleteSessionOnClose bool
	// Reconnect is asked when the connection breaks: how long to wait before
	// attempt n (from 1) to open it again, and whether to. The attempts of one
	// break count; what was sent meanwhile on the other side is lost. Nil ends
	// the query instead.
	Reconnect func(attempt int, cause error) (wait time.Duration, again bool)
	// HTTPClient makes the requests; nil is http.DefaultClient.
	HTTPClient *http.Client
	// Logger is told about lines that were dropped; nil is slog.Default.
	Logger *slog.Logger
}

// DirectConnectError is a failure of a connection to a server.
type DirectConnectError struct {
	Op     string // "create session", "open socket", "read", "write", "delete session"
	Status int    // of the HTTP answer, if there was one
	Err    error
}

func (e *DirectConnectError) Error() string {
	if e.Status != 0 {
		return fmt.Sprintf("direct connect: %s: server answered %d: %v", e.Op, e.Status, e.Err)
	}
	return fmt.Sprintf("direct connect: %s: %v", e.Op, e.Err)
}

func (e *DirectConnectError) Unwrap() error { return e.Err }

// createdSession is the server's answer to POST /sessions.
type createdSession struct {
	SessionID  string `json:"session_id"`
	WSURL      string `json:"ws_url"`
	WorkDir    string `json:"work_dir"`
	SessionKey string `json:"session_key"`
}

func (c *DirectConnection) create(ctx context.Context) error {
	body, err := json.Marshal(struct {
		Cwd            string         `json:"cwd,omitempty"`
		SessionKey     string         `json:"session_key,omitempty"`
		PermissionMode PermissionMode `json:"permission_mode,omitempty"`
	}{c.opts.Cwd, c.opts.SessionKey, c.opts.PermissionMode})
	if err != nil {
		return fmt.Errorf("encode session: %w", err)
	}
	answer, err := c.request(ctx, "create session", http.MethodPost, "/sessions", body)
	if err != nil {
		return err
	}
	var created createdSession
	if err := json.Unmarshal(answer, &created); err != nil {
		return &DirectConnectError{Op: "create session", Err: fmt.Errorf("answer is not JSON: %w", err)}
	}
	if created.SessionID == "" || created.WSURL == "" {
		return &DirectConnectError{Op: "create session", Err: errors.New("answer lacks session_id or ws_url")}
	}
	c.SessionID, c.WorkDir, c.SessionKey, c.socketURL = created.SessionID, created.WorkDir, created.SessionKey, created.WSURL
	return nil
}

func (c *DirectConnection) deleteSession() error {
	ctx, cancel := context.WithTimeout(context.Background(), directDeleteTimeout)
	defer cancel()
	_, err := c.request(ctx, "delete session", http.MethodDelete, "/sessions/"+url.PathEscape(c.SessionID), nil)
	return err
}

func (c *DirectConnection) request(ctx context.Context, op, method, path string, body []byte) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.target.URL+path, bytes.NewReader(body))
	if err != nil {
		return nil, &DirectConnectError{Op: op, Err: err}
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	c.authorize(req.Header)
	client := c.opts.HTTPClient
	if client == nil {
		client = http.DefaultClient
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, &DirectConnectError{Op: op, Err: err}
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return nil, &DirectConnectError{Op: op, Status: resp.StatusCode, Err: err}
	}
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return nil, &DirectConnectError{Op: op, Status: resp.StatusCode, Err: fmt.Errorf("%.200s", answer)}
	}
	return answer, nil
}

func (c *DirectConnection) authorize(h http.Header) {
	if c.target.Token != "" {
		h.Set("Authorization", "Bearer "+c.target.Token)
	}
}
