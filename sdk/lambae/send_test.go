package lambae_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/lambae/lambae/sdk/lambae"
	"github.com/lambae/lambae/sdk/lambae/lambaetest"
)

// sent is all that a send yields.
type sent struct {
	events []lambae.Event
	text   strings.Builder // of deltas
	lost   int
	result *lambae.Result
	err    error
}

func send(ctx context.Context, session *lambae.Session, message lambae.Message, stream bool) *sent {
	var got sent
	for update, err := range session.Send(ctx, message, &lambae.SendOptions{Stream: stream}) {
		switch {
		case update.Event != nil:
			got.events = append(got.events, *update.Event)
		case update.Delta != nil:
			got.text.WriteString(update.Delta.Text)
		case update.Lost != nil:
			got.lost++
		}
		if update.Result != nil {
			got.result = update.Result
		}
		got.err = err
	}
	return &got
}

func TestSendYieldsWhatHappens(t *testing.T) {
	t.Parallel()
	session := open(t, start(t, lambaetest.Options{}))
	got := send(t.Context(), session, lambae.UserMessage("hello <you>\u2028"), true)
	require.NoError(t, got.err)
	require.Equal(t, "You said: hello <you>\u2028", got.text.String())
	require.Equal(t, got.text.String(), got.result.Text())
	require.Equal(t, []lambae.EventType{
		lambae.EventProviderRequest, lambae.EventProviderResponse, lambae.EventServerMessage,
	}, types(got.events))
	require.Equal(t, append([]lambae.EventType{lambae.EventClientMessage}, types(got.events)...), types(got.result.Events))
	require.Zero(t, got.lost)

	got = send(t.Context(), session, lambae.UserMessage("again"), false)
	require.NoError(t, got.err)
	require.Empty(t, got.text.String())
}

func TestSendNeedsADriver(t *testing.T) {
	t.Parallel()
	session, err := start(t, lambaetest.Options{}).Client().Open(t.Context(), nil)
	require.NoError(t, err)
	got := send(t.Context(), session, lambae.UserMessage("hi"), false)
	require.Equal(t, lambae.CodeDriverNotRegistered, rpcError(t, got.err).Code)
	require.ErrorContains(t, got.err, "send message to "+session.ID+": call session.registerDriver before session.sendMessage (-32001)")
}

func rpcError(t *testing.T, err error) *lambae.RPCError {
	var refused *lambae.RPCError
	require.ErrorAs(t, err, &refused)
	return refused
}

func TestAFailedTurnHasAResultAndAnError(t *testing.T) {
	t.Parallel()
	calls := 0
	for name, test := range map[string]struct {
		model lambaetest.Model
		want  error
	}{
		"when every provider failed": {func(lambaetest.Turn) ([]lambae.Block, error) { return nil, errors.New("overloaded") }, lambae.ErrProvidersFailed},
		"when it went round too often": {func(lambaetest.Turn) ([]lambae.Block, error) {
			calls++
			return []lambae.Block{lambaetest.ToolUse(fmt.Sprint("t", calls), "nobody's", `{}`)}, nil
		}, lambae.ErrLoopLimit},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			session := open(t, start(t, lambaetest.Options{Model: test.model}))
			result, err := session.Run(t.Context(), lambae.UserMessage("hi"), nil)
			require.ErrorIs(t, err, test.want)
			require.Equal(t, "The provider is currently unavailable.", result.Text())
			var failed *lambae.TurnError
			require.ErrorAs(t, err, &failed)
			require.Same(t, result, failed.Result)
			require.Equal(t, lambae.EventSessionError, result.Events[len(result.Events)-1].Type)

			_, err = session.Run(t.Context(), lambae.UserMessage("hi"), nil)
			require.Equal(t, lambae.CodeSession, rpcError(t, err).Code)
		})
	}
}

func TestASendWaitsItsTurnAndCanBeGivenUp(t *testing.T) {
	t.Parallel()
	asked, release := make(chan struct{}, 2), make(chan struct{})
	server := start(t, lambaetest.Options{Model: func(turn lambaetest.Turn) ([]lambae.Block, error) {
		asked <- struct{}{}
		<-release
		return lambaetest.Echo(turn)
	}})
	session := open(t, server)
	first := make(chan *sent)
	go func() { first <- send(context.WithoutCancel(t.Context()), session, lambae.UserMessage("first"), false) }()
	<-asked

	ctx, cancel := context.WithCancel(t.Context())
	second := make(chan *sent)
	go func() { second <- send(ctx, session, lambae.UserMessage("second"), false) }()
	cancel()
	require.ErrorIs(t, (<-second).err, context.Canceled)

	close(release)
	require.NoError(t, (<-first).err)
}

func TestAReaderMayStop(t *testing.T) {
	t.Parallel()
	session := open(t, start(t, lambaetest.Options{}))
	for update, err := range session.Send(t.Context(), lambae.UserMessage("hi"), nil) {
		require.NoError(t, err)
		require.NotNil(t, update.Event)
		break
	}
}

func TestASendSurvivesAnyCuts(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		// Two losses in a row are within the retries of a client that gets no further.
		cuts := rapid.SliceOfN(rapid.IntRange(0, 3000), 0, 2).Draw(rt, "cuts")
		lagged := rapid.Bool().Draw(rt, "lagged")
		faults := []*lambaetest.Fault{}
		for _, cut := range cuts {
			fault := &lambaetest.Fault{CutAfter: cut}
			if lagged {
				fault = &lambaetest.Fault{LaggedAfter: 1 + cut%4}
			}
			faults = append(faults, fault)
		}
		server := lambaetest.New(lambaetest.Options{Fault: firstAnswers(sends, faults...)})
		defer server.Close()
		session, err := server.Client().Open(t.Context(), nil)
		require.NoError(rt, err)
		require.NoError(rt, session.RegisterDriver(t.Context()))
		got := send(t.Context(), session, lambae.UserMessage("hello, how are you?"), false)
		require.NoError(rt, got.err)
		require.Equal(rt, []lambae.EventType{
			lambae.EventProviderRequest, lambae.EventProviderResponse, lambae.EventServerMessage,
		}, types(got.events))
		require.Len(rt, all(t, session), 6, "the turn ran once")
	})
}

func TestALostSendIsToldWithoutKeys(t *testing.T) {
	t.Parallel()
	server := start(t, lambaetest.Options{Fault: firstAnswers(sends, &lambaetest.Fault{CutAfter: 100}, &lambaetest.Fault{LaggedAfter: 1})})
	client, err := lambae.New(server.URL, server.ClientKey, &lambae.Options{NoIdempotencyKeys: true})
	require.NoError(t, err)
	session, err := client.Open(t.Context(), nil)
	require.NoError(t, err)
	require.NoError(t, session.RegisterDriver(t.Context()))
	got := send(t.Context(), session, lambae.UserMessage("one"), false)
	require.ErrorContains(t, got.err, "the answer was cut off")
	require.Zero(t, got.lost)
	got = send(t.Context(), session, lambae.UserMessage("two"), false)
	require.ErrorIs(t, got.err, lambae.ErrLagged)
}

func TestASendThatGetsNowhereFails(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ body, want string }{
		"when the answer never ends":  {"", "no result came"},
		"when lines are malformed":    {"<html>\n", "malformed line"},
		"when an event has no id":     {`{"jsonrpc":"2.0","method":"session.event","params":{}}` + "\n", "an event without an id"},
		"when a delta is of any kind": {`{"jsonrpc":"2.0","method":"session.delta","params":[]}` + "\n", "malformed line"},
		"when the result is not one":  {`{"jsonrpc":"2.0","id":1,"result":5}` + "\n", "read the result"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var tries atomic.Int32
			session, err := answering(t, func(w http.ResponseWriter, _ *http.Request) {
				tries.Add(1)
				_, _ = io.WriteString(w, test.body)
			}).Session("ses_a", "bae_ses_k")
			require.NoError(t, err)
			got := send(t.Context(), session, lambae.UserMessage("hi"), false)
			require.ErrorContains(t, got.err, test.want)
			require.LessOrEqual(t, int(tries.Load()), 4)
		})
	}
}

func TestUnknownNotificationsAreIgnored(t *testing.T) {
	t.Parallel()
	session, err := answering(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"jsonrpc":"2.0","method":"session.news","params":1}`+"\n\n"+
			`{"jsonrpc":"2.0","id":1,"result":{"message":{"role":"assistant","content":"ok"},"events":[]}}`)
	}).Session("ses_a", "bae_ses_k")
	require.NoError(t, err)
	got := send(t.Context(), session, lambae.UserMessage("hi"), false)
	require.NoError(t, got.err)
	require.Equal(t, "ok", got.result.Text())
}
