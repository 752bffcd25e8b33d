package lambae

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/lambae/lambae/sdk/lambae/internal/rest"
)

// RegisterDriver makes this client a driver of the session, which everything
// but watching needs. It is idempotent; [Session.Run] does it by itself.
func (s *Session) RegisterDriver(ctx context.Context) error {
	if err := s.call(ctx, "session.registerDriver", nil, nil, repeatable); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.registered = true
	return nil
}

// ensureDriver registers the client unless this Session already did.
func (s *Session) ensureDriver(ctx context.Context) error {
	s.mu.Lock()
	registered := s.registered
	s.mu.Unlock()
	if registered {
		return nil
	}
	return s.RegisterDriver(ctx)
}

// UpdateClientTools replaces the tools this client declares, from the next
// provider call on.
func (s *Session) UpdateClientTools(ctx context.Context, tools []Tool) error {
	params := map[string]any{"tools": append([]Tool{}, tools...)}
	if err := s.call(ctx, "session.updateClientTools", params, nil, repeatable); err != nil {
		return err
	}
	s.setTools(tools)
	return nil
}

// Unsubscribe ends every subscription of the session, those of others too.
func (s *Session) Unsubscribe(ctx context.Context) error {
	return s.call(ctx, "session.unsubscribe", nil, nil, repeatable)
}

// Whether a call may be sent again when its answer was lost.
const (
	once       = false
	repeatable = true
)

// call makes a call that has one answer and reads it into result, unless nil.
func (s *Session) call(ctx context.Context, method string, params, result any, again bool) error {
	return s.callWatched(ctx, method, params, result, again, func(*envelope) {})
}

// callWatched is call that passes on the notifications before the answer.
func (s *Session) callWatched(ctx context.Context, method string, params, result any, again bool, notify func(*envelope)) error {
	if err := s.tryCall(ctx, method, params, result, again, notify); err != nil {
		return fmt.Errorf("%s on %s: %w", method, s.ID, err)
	}
	return nil
}

func (s *Session) tryCall(ctx context.Context, method string, params, result any, again bool, notify func(*envelope)) error {
	if params == nil {
		params = struct{}{}
	}
	encoded, err := encode(params)
	if err != nil {
		return err
	}
	body := requestBody(method, encoded)
	for attempt := 0; ; attempt++ {
		answer, err := s.answer(ctx, rest.Request{Body: body, Repeatable: again}, notify)
		if errors.Is(err, errLost) && again && attempt < s.client.rest.Retries() {
			if err := rest.Sleep(ctx, s.client.rest.Backoff(attempt)); err != nil {
				return err
			}
			continue
		}
		if err != nil || result == nil {
			return err
		}
		return json.Unmarshal(answer, result)
	}
}

// answer reads a stream to the line that answers the call.
func (s *Session) answer(ctx context.Context, r rest.Request, notify func(*envelope)) (json.RawMessage, error) {
	stream, err := s.stream(ctx, r, func() {})
	if err != nil {
		return nil, err
	}
	defer stream.Close()
	for {
		line, err := stream.next(ctx)
		switch {
		case errors.Is(err, io.EOF):
			return nil, fmt.Errorf("%w: no result came", errLost)
		case err != nil:
			return nil, err
		case line.Error != nil:
			return nil, line.Error
		case line.terminal():
			return line.Result, nil
		default:
			notify(line)
		}
	}
}

// requestBody is the envelope of a call. It is put together by hand so that
// params arrive byte for byte. One request is one HTTP exchange, so that all
// can have the same id.
func requestBody(method string, params json.RawMessage) []byte {
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":1,"method":%q,"params":%s}`, method, params)
}

// stream opens the NDJSON answer to a call.
func (s *Session) stream(ctx context.Context, r rest.Request, onRead func()) (*stream, error) {
	r.Method, r.Path, r.Key, r.Accept, r.Stream = http.MethodPost, s.path("/rpc"), s.Key, "application/x-ndjson", true
	response, err := s.client.rest.Do(ctx, r)
	if err != nil {
		return nil, err
	}
	if response.StatusCode/100 != 2 {
		return nil, ReadAPIError(response.Response)
	}
	return &stream{newLines(response.Body, onRead), response.Body}, nil
}

// stream is an open NDJSON answer.
type stream struct {
	lines *lines
	io.Closer
}

// errLost marks a stream that ended before its time: the call may still run.
var errLost = errors.New("the answer was cut off")

// next is the next line. Everything but the clean end of the stream, io.EOF,
// and the end of ctx is errLost.
func (s *stream) next(ctx context.Context) (*envelope, error) {
	line, err := s.lines.next()
	switch {
	case err == nil:
		return line, nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case errors.Is(err, io.EOF):
		return nil, io.EOF
	}
	return nil, fmt.Errorf("%w: %w", errLost, err)
}
