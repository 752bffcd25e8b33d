package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/lambae/lambae/sdk/lambae"
	"github.com/lambae/lambae/sdk/lambae/wsstream"
)

func TestTheAdminAPIWantsASignature(t *testing.T) {
	t.Parallel()
	w := deployed(t)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.stack.AdminURL+"/admin/v1/profiles", nil)
	require.NoError(t, err)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	require.Equal(t, http.StatusForbidden, resp.StatusCode)
}

func TestTheClientFunctionHasNoAdminAPI(t *testing.T) {
	t.Parallel()
	w := deployed(t)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.stack.ClientURL+"/admin/v1/profiles", nil)
	require.NoError(t, err)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	require.Equal(t, http.StatusNotFound, resp.StatusCode)
}

// shout is a tool that runs here.
var shout = lambae.TypedTool(lambae.Tool{Name: "shout", InputSchema: json.RawMessage(`{"type":"object"}`)},
	func(_ context.Context, in struct{ Text string }) (string, error) {
		return strings.ToUpper(in.Text), nil
	})

func TestATurnUsesToolsOfTheClientAndOfAnMCPServer(t *testing.T) {
	t.Parallel()
	w := deployed(t)
	s := driver(t, w.client(t, w.profile(t)), shout)
	result, err := s.Run(patient(t), lambae.UserMessage("/tool add {\"A\":20,\"B\":22}\n/tool shout {\"Text\":\"hello\"}"), &lambae.RunOptions{Tools: []lambae.ClientTool{shout}})
	require.NoError(t, err)
	require.Contains(t, result.Text(), "42")
	require.Contains(t, result.Text(), "HELLO")

	dispatched := map[string]string{}
	for _, e := range events(t, s) {
		if e.Type == lambae.EventToolCall {
			var call struct{ Name, Dispatch string }
			require.NoError(t, json.Unmarshal(e.Payload, &call))
			dispatched[call.Name] = call.Dispatch
		}
	}
	require.Equal(t, map[string]string{"add": "mcp", "shout": "client"}, dispatched)

	require.NoError(t, s.Close(t.Context()))
	sessions := 0
	for closed, err := range w.admin.Sessions(t.Context(), "closed") {
		require.NoError(t, err)
		if closed.ID == s.ID {
			sessions++
		}
	}
	require.Equal(t, 1, sessions)
}

func TestASubscriberOfTheWebSocketGetsEveryEventOnce(t *testing.T) {
	t.Parallel()
	w := deployed(t)
	c := w.client(t, w.profile(t))
	s := driver(t, c)
	ctx := patient(t)
	first, err := s.Run(ctx, lambae.UserMessage("before"), nil)
	require.NoError(t, err)
	since := first.Events[0].ID

	meta, err := c.Meta(ctx)
	require.NoError(t, err)
	var got []lambae.Event
	var g errgroup.Group
	g.Go(func() error {
		options := &wsstream.Options{SubscribeOptions: lambae.SubscribeOptions{Since: since}}
		for e, err := range wsstream.Subscribe(ctx, s, meta.WebSocketURL, options) {
			if err != nil {
				return err
			}
			got = append(got, e)
		}
		return nil
	})
	for i := range 3 {
		_, err := s.Run(ctx, lambae.UserMessage(fmt.Sprintf("message %d", i)), nil)
		require.NoError(t, err)
	}
	require.NoError(t, s.Close(ctx))
	require.NoError(t, g.Wait(), "the subscription ends with the session")

	all := events(t, s)
	for i, e := range all {
		if e.ID == since {
			all = all[i+1:]
			break
		}
	}
	require.Equal(t, ids(all), ids(got))
}

func ids(events []lambae.Event) []string {
	var out []string
	for _, e := range events {
		out = append(out, e.ID)
	}
	return out
}

// Each request is in a function instance of its own: the log alone keeps turns
// apart.
func TestTwoDriversTakeTurns(t *testing.T) {
	t.Parallel()
	w := deployed(t)
	profile := w.profile(t)
	a := driver(t, w.client(t, profile))
	b := joined(t, w.client(t, profile), a.ID)
	ctx := patient(t)
	const each = 4
	var g errgroup.Group
	for _, s := range []*lambae.Session{a, b} {
		g.Go(func() error {
			for i := range each {
				if _, err := s.Run(ctx, lambae.UserMessage(fmt.Sprintf("%d\n/sleep 50ms", i)), nil); err != nil {
					return err
				}
			}
			return nil
		})
	}
	require.NoError(t, g.Wait())

	var turns []lambae.Event
	for _, e := range events(t, a) {
		switch e.Type {
		case lambae.EventClientMessage, lambae.EventProviderRequest, lambae.EventProviderResponse, lambae.EventServerMessage:
			turns = append(turns, e)
		}
	}
	require.Len(t, turns, 2*each*4)
	for i := 0; i < len(turns); i += 4 {
		turn := turns[i : i+4]
		require.Equal(t, []lambae.EventType{
			lambae.EventClientMessage, lambae.EventProviderRequest, lambae.EventProviderResponse, lambae.EventServerMessage,
		}, typesOf(turn), "turn %d is not interrupted", i/4)
		for _, e := range turn {
			require.Equal(t, turn[0].ClientKeyID, e.ClientKeyID)
		}
	}
}
