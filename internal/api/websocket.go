package api

import (
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/coder/websocket"

	"github.com/lambae/lambae/internal/push"
	"github.com/lambae/lambae/internal/session"
)

// socketLimits bound what one WebSocket may cost. Zero values stand for the
// defaults.
type socketLimits struct {
	write     time.Duration // how long a client may leave its connection full
	lagWait   time.Duration // a message that took so long,
	lagChunks int64         // with so many chunks still to send, is a lag
	subscribe time.Duration // how long a connection may be there for nothing
	closing   time.Duration // how long the last messages may take when the server stops
}

func (l socketLimits) orDefaults() socketLimits {
	def := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	def(&l.write, writeTimeout)
	def(&l.lagWait, lagWait)
	def(&l.subscribe, time.Minute)
	def(&l.closing, 5*time.Second)
	if l.lagChunks == 0 {
		l.lagChunks = lagChunks
	}
	return l
}

// websocket serves GET /api/v1/sessions/{id}/ws: subscriptions as package push
// describes them.
func (c *Client) websocket(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Authorization") == "" {
		if key, _ := push.ProtocolKey(r.Header); key != "" {
			r.Header.Set("Authorization", "Bearer "+key)
		}
	}
	who, ok := c.caller(w, r)
	if !ok {
		return
	}
	defer who.release()
	noteRequest(r.Context(), slog.String("session", who.log.ID))
	if !asksUpgrade(r) {
		w.Header().Set("Connection", "Upgrade")
		w.Header().Set("Upgrade", "websocket")
		writeProblem(w, newProblem(http.StatusUpgradeRequired, "upgrade_required", "this path speaks WebSocket only: send an upgrade request, or follow the session with session.subscribe on its rpc path"))
		return
	}
	if !upgradable(w) {
		writeProblem(w, newProblem(http.StatusNotImplemented, "not_implemented", "WebSockets end elsewhere: connect to the websocket_url that GET /api/v1/meta gives, if it does"))
		return
	}
	conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{
		Subprotocols: []string{push.Subprotocol},
		// Pages of any origin may connect: what opens a session is its key, which a
		// page must have and no browser adds by itself.
		InsecureSkipVerify: true,
	})
	if err != nil {
		return // Accept has said what is wrong with the handshake
	}
	defer conn.CloseNow()
	conn.SetReadLimit(push.MaxRequest)
	c.openSockets.Add(1)
	defer c.openSockets.Add(-1)
	newSocket(c, conn, who, requestID(r.Context())).run(r.Context())
}

// OpenSockets is how many WebSockets are open. A server that stops waits for
// them itself, since [http.Server.Shutdown] does not.
func (c *Client) OpenSockets() int64 { return c.openSockets.Load() }

// websocketURL is the websocket_url of GET /api/v1/meta: where subscriptions are
// served, "{session_id}" standing for the session; "" where they are not. It is
// the platform's gateway, or this server under the name the client calls it by.
func (c *Client) websocketURL(w http.ResponseWriter, r *http.Request) string {
	if c.WebSocketURL != "" {
		return c.WebSocketURL
	}
	if !upgradable(w) || r.Host == "" {
		return ""
	}
	scheme := "ws"
	if r.TLS != nil || strings.EqualFold(r.Header.Get("X-Forwarded-Proto"), "https") {
		scheme = "wss"
	}
	return scheme + "://" + r.Host + "/api/v1/sessions/{session_id}/ws"
}

func asksUpgrade(r *http.Request) bool {
	for _, v := range r.Header.Values("Upgrade") {
		if strings.EqualFold(strings.TrimSpace(v), "websocket") {
			return true
		}
	}
	return false
}

// upgradable reports whether the connection can become a WebSocket. The answers
// of a Lambda function cannot.
func upgradable(w http.ResponseWriter) bool {
	for {
		if _, ok := w.(http.Hijacker); ok {
			return true
		}
		u, ok := w.(interface{ Unwrap() http.ResponseWriter })
		if !ok {
			return false
		}
		w = u.Unwrap()
	}
}

// endings are the close frames of subscriptions that are over. Their reasons are
// at most 123 bytes.
var endings = map[session.End]closing{
	session.EndClosed:       {websocket.StatusNormalClosure, "the session is closed"},
	session.EndError:        {websocket.StatusNormalClosure, "the session has ended in an error"},
	session.EndUnsubscribed: {websocket.StatusNormalClosure, "somebody unsubscribed"},
	session.EndRevoked:      {websocket.StatusPolicyViolation, "the client key was revoked"},
}

// closing is a close frame.
type closing struct {
	code   websocket.StatusCode
	reason string
}

var (
	closeLagged   = closing{websocket.StatusTryAgainLater, "lagged; reconnect with since_event_id"}
	closeShutdown = closing{websocket.StatusGoingAway, "the server is stopping; reconnect with since_event_id"}
	closeFailed   = closing{websocket.StatusInternalError, "internal error; reconnect with since_event_id"}
	closeUnused   = closing{websocket.StatusPolicyViolation, "no session.subscribe came in time"}
	closeBinary   = closing{websocket.StatusUnsupportedData, "frames must be text"}
)
