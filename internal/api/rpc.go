package api

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"

	"github.com/lambae/lambae/internal/session"
	"github.com/lambae/lambae/internal/turn"
)

// method serves one rpc method. Its error becomes the error member of the
// answer, see [toRPC].
type method func(c *Client, ctx context.Context, who *caller, p params) (any, error)

// params are a method's parameters by name.
type params map[string]json.RawMessage

// The methods that answer with one line. session.sendMessage and
// session.subscribe stream, see [Client.rpc].
var methods = map[string]method{
	"session.registerDriver":      (*Client).registerDriver,
	"session.unsubscribe":         (*Client).unsubscribe,
	"session.startRemoteSandbox":  (*Client).startRemoteSandbox,
	"session.stopRemoteSandbox":   (*Client).stopRemoteSandbox,
	"session.execRemoteSandbox":   (*Client).execRemoteSandbox,
	"session.reportLocalSandbox":  (*Client).reportLocalSandbox,
	"session.reportLocalSubagent": (*Client).reportLocalSubagent,
	"session.cancelSubagent":      (*Client).cancelSubagent,
	"session.updateClientTools":   (*Client).updateClientTools,
}

// rpc serves POST /api/v1/sessions/{id}/rpc.
func (c *Client) rpc(w http.ResponseWriter, r *http.Request) {
	who, ok := c.caller(w, r)
	if !ok {
		return
	}
	defer who.release()
	body, err := readBody(r)
	if err != nil {
		fail(w, r, c.Logger, err)
		return
	}
	req, fault := parseRequest(body)
	noteRequest(r.Context(), slog.String("session", who.log.ID), slog.String("rpc", loggedMethod(req.Method)))
	switch {
	case fault != nil:
		c.reply(w, req.ID, nil, c.toRPC(r, fault))
	case req.Method == "session.sendMessage":
		c.sendMessage(w, r, who, req)
	case req.Method == "session.subscribe":
		c.subscribe(w, r, who, req)
	case req.Method == "session.execRemoteSandbox" && wantsStream(req.Params):
		c.watchExec(w, r, who, req)
	case methods[req.Method] == nil:
		c.reply(w, req.ID, nil, c.toRPC(r, refuse(codeMethodNotFound, "Method not found: %s", req.Method)))
	default:
		// What was asked for is done even when the caller goes away meanwhile.
		result, err := methods[req.Method](c, context.WithoutCancel(r.Context()), who, req.Params)
		c.reply(w, req.ID, result, c.toRPC(r, err))
	}
}

// loggedMethod is what the log says of a method: one that does not exist may be
// megabytes of anything, and the log holds no payloads.
func loggedMethod(name string) string {
	if name == "" || name == "session.sendMessage" || name == "session.subscribe" || methods[name] != nil {
		return name
	}
	return "unknown"
}

// reply writes an answer of one line, or of none for a notification.
func (c *Client) reply(w http.ResponseWriter, id json.RawMessage, result any, err *rpcError) {
	w.Header().Set("Content-Type", ndjson)
	w.WriteHeader(http.StatusOK)
	if id != nil {
		_, _ = w.Write(answerLine(id, result, err))
	}
}

// toRPC turns an error into what the caller is told, and notes it as the outcome
// of the request, whose status is 200 in any case.
func (c *Client) toRPC(r *http.Request, err error) *rpcError {
	if err == nil {
		return nil
	}
	told := c.told(r, err)
	noteRequest(r.Context(), slog.Int("rpc_error", told.Code))
	return told
}

// told is what the caller is told of an error. One of ours is logged and not
// shown.
func (c *Client) told(r *http.Request, err error) *rpcError {
	var (
		rpc         *rpcError
		refusal     *session.Refusal
		interrupted *turn.Interrupted
	)
	switch {
	case errors.As(err, &rpc):
		return rpc
	case errors.As(err, &refusal), errors.As(err, &interrupted), errors.Is(err, session.ErrTurnLost),
		errors.Is(err, session.ErrIdemMismatch), errors.Is(err, session.ErrUnknownFormat):
		return refuse(codeRefused, "%s", err.Error())
	case errors.Is(err, turn.ErrNoPausedTurn), errors.Is(err, turn.ErrNoContent):
		return refuse(codeInvalidParams, "Invalid params: %s", err.Error())
	}
	level := slog.LevelError
	if r.Context().Err() != nil && errors.Is(err, context.Canceled) {
		level = slog.LevelInfo // the caller went away, and nobody reads the answer
	}
	id := requestID(r.Context())
	c.Logger.Log(r.Context(), level, "call failed", "request_id", id, "session", pathSession(r), "error", err)
	return refuse(codeInternal, "Internal error; the server's log tells more under request_id %s", id)
}

func notDriver(method string) *rpcError {
	return refuse(codeNotDriver, "call session.registerDriver before %s", method)
}

func badParams(format string, args ...any) *rpcError {
	return refuse(codeInvalidParams, "Invalid params: "+format, args...)
}

// driver checks that the caller is a registered driver and the session not
// closed: registrations outlive a close, so what a closed session says is that it
// is closed (protocol, "Meant differences").
func (w *caller) driver(method string) (err error) {
	w.log.View(func(s *session.State) {
		if !s.Driver(w.key) {
			err = notDriver(method)
		} else {
			err = notClosed(s)
		}
	})
	return err
}

// openDriver is [caller.driver] for the methods that need an open session: one
// in state error still takes reports, stops and cancellations.
func (w *caller) openDriver(method string) error {
	if err := w.driver(method); err != nil {
		return err
	}
	var err error
	w.log.View(func(s *session.State) {
		if !s.Open() {
			err = session.NotOpen(s.Status)
		}
	})
	return err
}

func notClosed(s *session.State) error {
	if s.Status == session.StateClosed {
		return session.NotOpen(s.Status)
	}
	return nil
}

// event appends one event of the caller's, after the check.
func (w *caller) event(ctx context.Context, kind string, payload any, check func(*session.State) error) (*session.Chunk, error) {
	entry := session.Entry{Type: kind, Key: w.key, Payload: session.MarshalJSON(payload)}
	return w.log.Append(ctx, func(s *session.State) (session.Draft, error) {
		if check != nil {
			if err := check(s); err != nil {
				return session.Draft{}, err
			}
		}
		return session.Draft{Entries: []session.Entry{entry}}, nil
	})
}
