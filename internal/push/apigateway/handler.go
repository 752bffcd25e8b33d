package apigateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"github.com/lambae/lambae/internal/push"
	"github.com/lambae/lambae/internal/session"
	"github.com/lambae/lambae/internal/table"
)

// Handler takes what the clients of a WebSocket API do: $connect, $default and
// $disconnect.
type Handler struct {
	Pusher    *Pusher
	Directory *session.Directory
	Logger    *slog.Logger
}

type (
	request  = events.APIGatewayWebsocketProxyRequest
	response = events.APIGatewayProxyResponse
)

// Types of events, by the gateway's names.
const (
	connectEvent    = "CONNECT"
	messageEvent    = "MESSAGE"
	disconnectEvent = "DISCONNECT"
)

// Handle serves one event. An error answers 500, which refuses a connection and
// is nothing to one that stands.
func (h *Handler) Handle(ctx context.Context, r request) (answer response, err error) {
	began, id, sessionID := time.Now(), r.RequestContext.ConnectionID, ""
	defer func() {
		if cause := recover(); cause != nil {
			answer, err = response{}, fmt.Errorf("panic: %v", cause)
		}
		level := slog.LevelInfo
		attrs := []slog.Attr{slog.String("type", r.RequestContext.EventType), slog.String("session", sessionID), slog.String("connection", id),
			slog.Int("status", answer.StatusCode), slog.Int64("ms", time.Since(began).Milliseconds())}
		if err != nil {
			level, attrs = slog.LevelError, append(attrs, slog.Any("error", err))
		}
		h.Logger.LogAttrs(ctx, level, "websocket", attrs...)
	}()
	switch r.RequestContext.EventType {
	case connectEvent:
		if name := r.QueryStringParameters["session"]; session.IsID(session.SessionPrefix, name) {
			sessionID = name // anything else would be the client's own words in the log
		}
		return h.connect(ctx, id, r)
	case messageEvent, disconnectEvent:
		sessionID, err = h.connected(ctx, id, r)
	default:
		err = fmt.Errorf("unknown event type %q: the function serves the routes $connect, $default and $disconnect of a WebSocket API", r.RequestContext.EventType)
	}
	if err != nil {
		return response{}, err
	}
	return response{StatusCode: http.StatusOK}, nil
}

// connect lets a client in that has a key of the session it names.
func (h *Handler) connect(ctx context.Context, id string, r request) (response, error) {
	header := http.Header{}
	for name, values := range r.MultiValueHeaders {
		header[http.CanonicalHeaderKey(name)] = values
	}
	for name, value := range r.Headers {
		if header.Get(name) == "" {
			header.Set(name, value)
		}
	}
	secret, offered := push.ProtocolKey(header)
	if v := strings.TrimSpace(header.Get("Authorization")); v != "" {
		secret = bearer(v)
	} else if secret == "" {
		return refuse(http.StatusUnauthorized, "unauthorized", "missing Authorization header"), nil
	}
	sessionID := r.QueryStringParameters["session"]
	if sessionID == "" {
		return refuse(http.StatusBadRequest, "bad_request", "name the session in the query: ?session=ses_…"), nil
	}
	key, err := push.Authenticate(ctx, h.Pusher.Store, h.Directory, sessionID, secret)
	if errors.Is(err, push.ErrInvalidKey) {
		return refuse(http.StatusUnauthorized, "unauthorized", "invalid session key"), nil
	}
	if err != nil {
		return response{}, err
	}
	if err := h.Pusher.Store.AddConnection(ctx, id, sessionID, key); err != nil {
		return response{}, err
	}
	answer := response{StatusCode: http.StatusOK}
	if offered {
		answer.Headers = map[string]string{"Sec-WebSocket-Protocol": push.Subprotocol}
	}
	return answer, nil
}

// bearer returns the key of an Authorization header; one of another form gives
// none, which opens nothing.
func bearer(header string) string {
	scheme, key, _ := strings.Cut(header, " ")
	if !strings.EqualFold(scheme, "bearer") {
		return ""
	}
	return strings.TrimSpace(key)
}

// refuse answers with a problem document.
func refuse(status int, slug, detail string) response {
	body := session.MarshalJSON(struct {
		Type   string `json:"type"`
		Title  string `json:"title"`
		Status int    `json:"status"`
		Detail string `json:"detail"`
	}{slug, http.StatusText(status), status, detail})
	return response{StatusCode: status, Headers: map[string]string{"Content-Type": "application/json"}, Body: string(body)}
}

// connected serves a connection that was let in, and returns its session. The
// gateway does not promise to tell of every end; one it does not tell of is found
// when it is posted to.
func (h *Handler) connected(ctx context.Context, id string, r request) (sessionID string, err error) {
	c, err := h.Pusher.Store.Connection(ctx, id)
	gone, ended := errors.Is(err, session.ErrNoConnection), r.RequestContext.EventType == disconnectEvent
	switch {
	case gone && ended:
		return "", nil
	case gone: // forgotten, because it failed or was over: its client is to come back
		return "", h.Pusher.Gateway.Close(ctx, id)
	case err != nil:
		return "", err
	case ended:
		return c.Session, h.Pusher.Store.DropConnection(ctx, c)
	}
	return c.Session, h.message(ctx, c, r)
}

// message does what a client asks.
func (h *Handler) message(ctx context.Context, c *session.Connection, r request) error {
	log, release, err := h.Pusher.Store.Log(ctx, c.Session)
	if err != nil {
		return err
	}
	defer release()
	err = push.Authorize(ctx, h.Directory, log, c.Key)
	switch {
	case errors.Is(err, push.ErrInvalidKey):
		h.Pusher.finish(ctx, c, push.Ended(c.Session, session.EndRevoked))
		return nil
	case err == nil && r.IsBase64Encoded: // frames must be text
		h.Pusher.finish(ctx, c, nil)
		return nil
	case err == nil:
		err = push.Serve(ctx, log, c.Key, []byte(r.Body), &peer{h.Pusher, log, c})
	}
	if errors.Is(err, ErrGone) {
		return nil
	}
	if err != nil {
		h.Pusher.finish(ctx, c, []byte(push.Lagged)) // the client comes back, with luck to a server that can
	}
	return err
}

// peer is a connection whose client asks for something.
type peer struct {
	pusher *Pusher
	log    *session.Log
	conn   *session.Connection
}

var _ push.Peer = (*peer)(nil)

// Send implements [push.Peer].
func (p *peer) Send(ctx context.Context, message []byte) error {
	if err := p.pusher.Gateway.Post(ctx, p.conn.ID, message); err != nil {
		p.pusher.lost(ctx, p.conn, err)
		return ErrGone
	}
	return nil
}

// Follow implements [push.Peer]. The position is written first and the log read
// after it: a chunk that was appended too early for its stream record to find the
// position is found here.
func (p *peer) Follow(ctx context.Context, s session.Subscriber) error {
	for {
		p.conn.Subscriber = &s
		err := p.pusher.Store.SaveConnection(ctx, p.conn)
		if err == nil {
			return p.CatchUp(ctx)
		}
		if !errors.Is(err, table.ErrCondition) {
			return err
		}
		p.conn, err = p.pusher.Store.Connection(ctx, p.conn.ID)
		if errors.Is(err, session.ErrNoConnection) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// CatchUp implements [push.Peer].
func (p *peer) CatchUp(ctx context.Context) error {
	if err := p.log.Refresh(ctx); err != nil {
		return err
	}
	return p.pusher.catchUp(ctx, p.log, p.conn)
}
