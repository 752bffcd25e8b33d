package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/coder/websocket"
	"github.com/go-chi/chi/v5"

	"github.com/lambae/lambae/internal/sandbox"
	"github.com/lambae/lambae/internal/sandbox/queue"
	"github.com/lambae/lambae/internal/sandbox/wire"
)

// Agents is what sandboxd processes call. It is no part of the client API: a
// sandbox's token opens the routes of this one sandbox and nothing else, and no
// other key opens these.
type Agents struct {
	Queue *queue.Queue
	// Doorbell is the URL of the WebSocket at which sandboxes listen for orders, with
	// {sandbox_id} in place of the sandbox; "" when this handler takes it itself, if
	// it can.
	Doorbell string
	// Ended is told of the end of a command that was launched. Its error makes
	// sandboxd tell again.
	Ended func(ctx context.Context, sandboxID, command string, res sandbox.Result) error
	// Failed is the same for a command that could not be started.
	Failed func(ctx context.Context, sandboxID, command, detail string) error
}

// agentRoutes mounts the routes of package wire.
func (c *Client) agentRoutes(r chi.Router) {
	const sandbox = "/api/v1/sandboxes/{sandbox}"
	r.Post(sandbox+"/enroll", c.agentEnroll)
	r.Get(sandbox+"/commands", c.agent(c.agentCommands))
	r.Post(sandbox+"/results", c.agent(c.agentResult))
	r.Post(sandbox+"/output", c.agent(c.agentOutput))
	r.Get(sandbox+"/doorbell", c.agent(c.agentDoorbell))
}

// agent authenticates a sandbox by its token.
func (c *Client) agent(serve func(w http.ResponseWriter, r *http.Request, id string)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		id := chi.URLParam(r, "sandbox")
		token, given := bearer(r)
		if !given {
			writeProblem(w, unauthorized("missing Authorization header"))
			return
		}
		if err := c.Agents.Queue.Authenticate(r.Context(), id, token); err != nil {
			c.agentFailed(w, r, err)
			return
		}
		serve(w, r, id)
	}
}

// serverURL is where the caller reached this server.
func serverURL(r *http.Request) string {
	if r.TLS != nil || r.Header.Get("X-Forwarded-Proto") == "https" {
		return "https://" + r.Host
	}
	return "http://" + r.Host
}

func (c *Client) agentFailed(w http.ResponseWriter, r *http.Request, err error) {
	switch {
	case errors.Is(err, queue.ErrUnauthorized):
		writeProblem(w, unauthorized("invalid sandbox token"))
	case errors.Is(err, queue.ErrUnwanted):
		writeProblem(w, newProblem(http.StatusGone, "gone", err.Error()))
	case errors.Is(err, queue.ErrNoOrder):
		writeProblem(w, badRequest("n is not the number of a command of this sandbox"))
	default:
		fail(w, r, c.Logger, err)
	}
}

func (c *Client) agentEnroll(w http.ResponseWriter, r *http.Request) {
	id := chi.URLParam(r, "sandbox")
	code, given := bearer(r)
	if !given {
		writeProblem(w, unauthorized("missing Authorization header"))
		return
	}
	var body wire.Enrollment
	if !c.agentBody(w, r, &body) {
		return
	}
	if err := c.Agents.Queue.Enroll(r.Context(), id, code, body.TokenHash); err != nil {
		c.agentFailed(w, r, err)
		return
	}
	writeJSON(w, http.StatusOK, wire.Enrolled{Doorbell: c.doorbell(w, r, id)})
}

func (c *Client) doorbell(w http.ResponseWriter, r *http.Request, id string) string {
	if c.Agents.Doorbell != "" {
		return strings.ReplaceAll(c.Agents.Doorbell, "{sandbox_id}", id)
	}
	if !upgradable(w) {
		return ""
	}
	return r.URL.Path[:len(r.URL.Path)-len("/enroll")] + "/doorbell"
}

func (c *Client) agentCommands(w http.ResponseWriter, r *http.Request, id string) {
	after, err := strconv.ParseInt(r.URL.Query().Get("after"), 10, 64)
	if err != nil || after < 0 {
		writeProblem(w, badRequest("after must be the number of the last command that is known, 0 at first"))
		return
	}
	orders, err := c.Agents.Queue.Orders(r.Context(), id, after)
	if err != nil {
		c.agentFailed(w, r, err)
		return
	}
	writeJSON(w, http.StatusOK, orders)
}

// agentResult notes an outcome. What comes from a sandbox is data and no more: it
// is cut to what a command may say, and it can only be that of a command of this
// sandbox which has none yet.
func (c *Client) agentResult(w http.ResponseWriter, r *http.Request, id string) {
	var out wire.Outcome
	if !c.agentBody(w, r, &out) {
		return
	}
	if (out.Result == nil) == (out.Error == "") {
		writeProblem(w, badRequest("the outcome must have either a result or an error"))
		return
	}
	if out.Result != nil {
		bound(&out.Result.Stdout, out.Result)
		bound(&out.Result.Stderr, out.Result)
	}
	if len(out.Error) > maxAgentError {
		out.Error = out.Error[:maxAgentError]
	}
	ctx := context.WithoutCancel(r.Context())
	launched, first, err := c.Agents.Queue.Settle(ctx, id, out)
	if err == nil && launched != "" {
		if first.Result != nil {
			err = c.Agents.Ended(ctx, id, launched, *first.Result)
		} else {
			err = c.Agents.Failed(ctx, id, launched, first.Error)
		}
	}
	if err != nil {
		c.agentFailed(w, r, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

const maxAgentError = 4096

func bound(text *string, r *sandbox.Result) {
	var b sandbox.Buffer
	_, _ = b.Write([]byte(*text))
	kept, cut := b.Text()
	*text, r.Truncated = kept, r.Truncated || cut
}

func (c *Client) agentOutput(w http.ResponseWriter, r *http.Request, id string) {
	var out wire.Output
	if !c.agentBody(w, r, &out) {
		return
	}
	if out.Stream != "stdout" && out.Stream != "stderr" {
		writeProblem(w, badRequest(`stream must be "stdout" or "stderr"`))
		return
	}
	if out.N < 1 || out.Seq < 1 {
		writeProblem(w, badRequest("n and seq must be the numbers of a command and of a piece of its output, from 1"))
		return
	}
	if err := c.Agents.Queue.Output(r.Context(), id, out); err != nil {
		c.agentFailed(w, r, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func (c *Client) agentBody(w http.ResponseWriter, r *http.Request, v any) bool {
	body, err := readBody(r)
	if err != nil {
		fail(w, r, c.Logger, err)
		return false
	}
	if json.Unmarshal(body, v) != nil {
		writeProblem(w, badRequest("the body must be a JSON object of the right types"))
		return false
	}
	return true
}

// lookEvery is how often a doorbell looks for orders that another process gave.
const lookEvery = 250 * time.Millisecond

// agentDoorbell rings whenever there are orders, until the sandbox or the server
// ends.
func (c *Client) agentDoorbell(w http.ResponseWriter, r *http.Request, id string) {
	conn, err := websocket.Accept(w, r, nil)
	if err != nil {
		return // Accept has answered
	}
	defer conn.CloseNow()
	ctx, cancel := context.WithCancel(conn.CloseRead(r.Context()))
	defer cancel()
	if c.Stopping != nil {
		defer context.AfterFunc(c.Stopping, cancel)()
	}
	ring, stop := c.Agents.Queue.Listen(id)
	defer stop()
	var look <-chan time.Time
	if !c.Store.Table().Exclusive() {
		t := time.NewTicker(lookEvery)
		defer t.Stop()
		look = t.C
	}
	for last := int64(0); ; {
		select {
		case <-ring:
		case <-look:
			orders, err := c.Agents.Queue.Orders(ctx, id, last)
			if err == nil && len(orders.Orders) == 0 {
				if c.Agents.Queue.Wanted(ctx, id) {
					continue
				}
			}
			if n := len(orders.Orders); n > 0 {
				last = orders.Orders[n-1].N
			}
		case <-ctx.Done():
			return
		}
		write, done := context.WithTimeout(ctx, writeTimeout)
		err := conn.Write(write, websocket.MessageText, []byte("ring"))
		done()
		if err != nil {
			return
		}
	}
}
