package main

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"github.com/lambae/lambae/internal/sandbox/queue"
	"github.com/lambae/lambae/internal/session"
)

type (
	request  = events.APIGatewayWebsocketProxyRequest
	response = events.APIGatewayProxyResponse
)

// handler tells sandboxes from subscribers by how they connect. After that a
// sandbox only listens: what else is heard of its connection concerns nobody, and
// one that ends is found when it is rung.
type handler struct {
	queue       *queue.Queue
	subscribers func(context.Context, request) (response, error)
	logger      *slog.Logger
}

func (h *handler) handle(ctx context.Context, r request) (response, error) {
	id := r.QueryStringParameters["sandbox"]
	if r.RequestContext.EventType != "CONNECT" || id == "" {
		return h.subscribers(ctx, r)
	}
	began := time.Now()
	status, err := h.hang(ctx, id, token(r.Headers), r.RequestContext.ConnectionID)
	if !session.IsID(session.SandboxPrefix, id) {
		id = "" // the client's own words, which are not for the log
	}
	level := slog.LevelInfo
	attrs := []slog.Attr{slog.String("sandbox", id), slog.String("connection", r.RequestContext.ConnectionID),
		slog.Int("status", status), slog.Int64("ms", time.Since(began).Milliseconds())}
	if err != nil {
		level, attrs = slog.LevelError, append(attrs, slog.Any("error", err))
	}
	h.logger.LogAttrs(ctx, level, "doorbell", attrs...)
	return response{StatusCode: status}, err
}

// hang lets a sandbox listen that has its own token. An error answers 500.
func (h *handler) hang(ctx context.Context, id, token, connection string) (status int, err error) {
	if err = h.queue.Authenticate(ctx, id, token); err == nil {
		err = h.queue.Hang(ctx, id, connection)
	}
	switch {
	case errors.Is(err, queue.ErrUnauthorized):
		return http.StatusUnauthorized, nil
	case errors.Is(err, queue.ErrUnwanted):
		return http.StatusGone, nil
	case err != nil:
		return 0, err
	}
	return http.StatusOK, nil
}

// token returns the bearer of a request. The gateway keeps the case of names, of
// which HTTP makes nothing.
func token(headers map[string]string) string {
	for name, value := range headers {
		if strings.EqualFold(name, "Authorization") {
			scheme, token, _ := strings.Cut(value, " ")
			if strings.EqualFold(scheme, "bearer") {
				return strings.TrimSpace(token)
			}
		}
	}
	return ""
}
