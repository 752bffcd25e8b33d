// Package agent is sandboxd: the process inside a sandbox that runs what its
// server orders (package wire has what the two say to each other). It needs
// nothing of the image but sh. It is a package, not a program, so that one binary
// can be both server and sandboxd.
//
// The token it works with is its own: made in its memory, told to nobody, and
// registered by its hash under a code that is of no use after that. Commands get a
// cleaned environment.
package agent

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	mathrand "math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/lambae/lambae/internal/sandbox/wire"
)

// Options of an [Agent].
type Options struct {
	Boot wire.Boot
	// Env is the environment of commands.
	Env    []string
	Logger *slog.Logger
	// GoneAfter is how long the server may be away; 5 minutes by default.
	GoneAfter time.Duration
	// Poll is how often orders are looked for without a doorbell, from the first
	// number on, slowing down to the second: 200 ms and 3 s by default.
	Poll, PollMax time.Duration
	// Client makes the requests; a client of its own by default.
	Client *http.Client
}

// Agent runs the commands of one sandbox.
type Agent struct {
	o     Options
	token string
	wake  chan struct{}
	runs  runs

	mu       sync.Mutex
	lastWord time.Time // when the server last answered
	bell     bool      // the doorbell is connected
}

var (
	// ErrUnwanted ends an agent whose server has no use for it any more. It is the
	// usual end.
	ErrUnwanted = errors.New("the server has no use for this sandbox any more")
	// ErrServerGone ends an agent whose server is away for too long.
	ErrServerGone = errors.New("the server is away for too long")
)

// New returns an agent. Its token exists only here.
func New(o Options) *Agent {
	if o.GoneAfter == 0 {
		o.GoneAfter = 5 * time.Minute
	}
	if o.Poll == 0 {
		o.Poll = 200 * time.Millisecond
	}
	if o.PollMax == 0 {
		o.PollMax = 3 * time.Second
	}
	if o.Client == nil {
		o.Client = &http.Client{Transport: &http.Transport{
			Proxy: http.ProxyFromEnvironment, DialContext: (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
			MaxIdleConnsPerHost: 16, IdleConnTimeout: time.Minute, TLSHandshakeTimeout: 10 * time.Second,
		}}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	b := make([]byte, 24)
	_, _ = rand.Read(b) // never fails: crypto/rand ends the process instead
	return &Agent{o: o, token: wire.TokenPrefix + hex.EncodeToString(b), wake: make(chan struct{}, 1), runs: newRuns(), lastWord: time.Now()}
}

// Run enrolls and then does what is ordered until the server does not want it any
// more, is away for too long, or ctx ends. All that runs is killed then.
func (a *Agent) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer func() {
		cancel(nil)
		a.runs.end()
	}()
	doorbell, err := a.enroll(ctx)
	if err != nil {
		return err
	}
	if doorbell != "" {
		go a.listen(ctx, doorbell)
	}
	go a.watchServer(ctx, cancel)
	return a.work(ctx)
}

// enroll registers the token's hash.
func (a *Agent) enroll(ctx context.Context) (doorbell string, err error) {
	sum := sha256.Sum256([]byte(a.token))
	body := wire.Enrollment{TokenHash: hex.EncodeToString(sum[:])}
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
		var answer wire.Enrolled
		err := a.call(ctx, http.MethodPost, "/enroll", a.o.Boot.Code, body, &answer)
		if errors.Is(err, ErrUnwanted) {
			return "", fmt.Errorf("not let in: %s", err.Error())
		}
		if err == nil {
			return answer.Doorbell, nil
		}
		if a.away() {
			return "", fmt.Errorf("%w: %w", ErrServerGone, err)
		}
		a.o.Logger.Warn("server not reached yet", "error", err)
		if err := pause(ctx, wait); err != nil {
			return "", err
		}
	}
}

// work fetches orders and begins them, one after the other.
func (a *Agent) work(ctx context.Context) error {
	last := int64(0)
	for quiet, wait := a.o.Poll, time.Duration(0); ; {
		var got wire.Orders
		err := a.call(ctx, http.MethodGet, fmt.Sprintf("/commands?after=%d", last), a.token, nil, &got)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, ErrUnwanted):
			return err
		case err != nil:
			a.o.Logger.Warn("commands not fetched, trying again", "error", err)
			wait = jitter(min(max(2*wait, 50*time.Millisecond), 5*time.Second))
			if err := pause(ctx, wait); err != nil {
				return err
			}
			continue
		}
		for _, o := range got.Orders {
			if o.N <= last {
				continue // each is done once, whatever comes twice
			}
			last = o.N
			a.begin(ctx, o)
		}
		if quiet = min(2*quiet, a.o.PollMax); len(got.Orders) > 0 {
			quiet = a.o.Poll
		}
		wait = quiet
		if a.hasBell() {
			wait = 15 * time.Second // should a ring be lost
		}
		if err := a.sleep(ctx, wait); err != nil {
			return err
		}
		wait = 0
	}
}

// sleep waits for a ring.
func (a *Agent) sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-a.wake:
	case <-t.C:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}

// ring makes the agent look for orders now.
func (a *Agent) ring() {
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// watchServer ends the agent when the server is away for too long.
func (a *Agent) watchServer(ctx context.Context, end context.CancelCauseFunc) {
	for pause(ctx, a.o.GoneAfter/20) == nil {
		if a.away() {
			end(ErrServerGone)
			return
		}
	}
}

func (a *Agent) away() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return time.Since(a.lastWord) > a.o.GoneAfter
}

func (a *Agent) heard() {
	a.mu.Lock()
	a.lastWord = time.Now()
	a.mu.Unlock()
}

func (a *Agent) hasBell() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.bell
}

func (a *Agent) setBell(on bool) {
	a.mu.Lock()
	a.bell = on
	a.mu.Unlock()
}

// callTimeout bounds one request. Nothing that is asked takes long.
const callTimeout = 30 * time.Second

// call makes one request. [ErrUnwanted] when the answer is that the agent may go.
func (a *Agent) call(ctx context.Context, method, path, bearer string, body, answer any) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	var r io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return err
		}
		r = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, a.url(path), r)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+bearer)
	req.Header.Set("Content-Type", "application/json")
	res, err := a.o.Client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	said, err := io.ReadAll(io.LimitReader(res.Body, 64<<20))
	if err != nil {
		return err
	}
	switch {
	case res.StatusCode == http.StatusUnauthorized, res.StatusCode == http.StatusGone, res.StatusCode == http.StatusNotFound:
		return fmt.Errorf("%w: %s", ErrUnwanted, res.Status)
	case res.StatusCode/100 != 2:
		return fmt.Errorf("%s %s: %s", method, path, res.Status)
	}
	a.heard()
	if answer != nil {
		return json.Unmarshal(said, answer)
	}
	return nil
}

func (a *Agent) url(path string) string {
	return strings.TrimSuffix(a.o.Boot.URL, "/") + "/api/v1/sandboxes/" + a.o.Boot.Sandbox + path
}

func jitter(d time.Duration) time.Duration { return d/2 + mathrand.N(d/2+1) }

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
