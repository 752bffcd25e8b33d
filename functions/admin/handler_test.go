package main

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/aws/aws-lambda-go/events"
	"github.com/stretchr/testify/require"

	"github.com/lambae/lambae/internal/lambdahttp/runtimetest"
)

func TestARequestIsAnsweredInOnePiece(t *testing.T) {
	t.Parallel()
	h := newHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		_ = json.NewEncoder(w).Encode(map[string]string{"method": r.Method, "path": r.URL.Path, "query": r.URL.RawQuery, "body": string(b)})
	}), func(context.Context) { t.Error("no sweep was asked for") })

	req := httptest.NewRequest(http.MethodPost, "/admin/v1/profiles?cursor=a%2Fb&limit=2", strings.NewReader(`{"name":"ü"}`))
	req.Header.Set("Content-Type", "application/json")
	raw, err := runtimetest.Event(req)
	require.NoError(t, err)
	answer, err := h.handle(t.Context(), raw)
	require.NoError(t, err)

	got := answer.(events.APIGatewayV2HTTPResponse)
	require.Equal(t, http.StatusCreated, got.StatusCode)
	require.Equal(t, "application/json", got.Headers["Content-Type"])
	require.False(t, got.IsBase64Encoded)
	require.JSONEq(t, `{"method":"POST","path":"/admin/v1/profiles","query":"cursor=a%2Fb&limit=2","body":"{\"name\":\"ü\"}"}`, got.Body)
}

func TestTheScheduleSweeps(t *testing.T) {
	t.Parallel()
	swept := 0
	h := newHandler(http.NotFoundHandler(), func(context.Context) { swept++ })
	answer, err := h.handle(t.Context(), event(`{"version":"0","detail-type":"Scheduled Event","source":"aws.events","detail":{}}`))
	require.NoError(t, err)
	require.Nil(t, answer)
	require.Equal(t, 1, swept)
}

func TestOtherEventsAreRefused(t *testing.T) {
	t.Parallel()
	for _, raw := range []string{`{}`, `null`, `[]`, `"text"`, `{"Records":[]}`} {
		_, err := newHandler(http.NotFoundHandler(), nil).handle(t.Context(), event(raw))
		require.ErrorIs(t, err, errUnknownEvent, raw)
	}
}
