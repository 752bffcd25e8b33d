package lambae_test

import (
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lambae/lambae/sdk/lambae"
	"github.com/lambae/lambae/sdk/lambae/lambaetest"
)

// firstAnswer gives the fault to the first answers to a call.
func firstAnswers(call string, faults ...*lambaetest.Fault) func(string) *lambaetest.Fault {
	var count atomic.Int32
	return func(called string) *lambaetest.Fault {
		if called != call {
			return nil
		}
		if at := int(count.Add(1)) - 1; at < len(faults) {
			return faults[at]
		}
		return nil
	}
}

const (
	opening = "POST /api/v1/sessions"
	joining = "POST /api/v1/sessions/{id}/join"
	closing = "DELETE /api/v1/sessions/{id}"
	sends   = "session.sendMessage"
)

func TestALostAnswerDoublesNothing(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]*lambaetest.Fault{
		"cut before its first byte": {CutAfter: 0},
		"cut in its middle":         {CutAfter: 40},
		"replaced by a proxy":       {Status: 502},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			t.Run("open", func(t *testing.T) {
				t.Parallel()
				server := start(t, lambaetest.Options{Fault: firstAnswers(opening, fault)})
				session := open(t, server)
				require.Equal(t, []lambae.EventType{lambae.EventSessionOpen, lambae.EventDriverRegister}, types(all(t, session)))
				require.Equal(t, 1, server.SessionCount())
			})
			t.Run("join", func(t *testing.T) {
				t.Parallel()
				server := start(t, lambaetest.Options{Fault: firstAnswers(joining, fault)})
				session := open(t, server)
				_, err := server.Client().Join(t.Context(), session.ID, nil)
				require.NoError(t, err)
				require.Len(t, all(t, session), 3)
			})
			t.Run("send", func(t *testing.T) {
				t.Parallel()
				server := start(t, lambaetest.Options{Fault: firstAnswers(sends, fault, fault)})
				session := open(t, server)
				result, err := session.Run(t.Context(), lambae.UserMessage("hi"), nil)
				require.NoError(t, err)
				require.Equal(t, "You said: hi", result.Text())
				require.Len(t, all(t, session), 6)
			})
			t.Run("close", func(t *testing.T) {
				t.Parallel()
				server := start(t, lambaetest.Options{Fault: firstAnswers(closing, fault)})
				session := open(t, server)
				require.NoError(t, session.Close(t.Context()))
				require.Len(t, all(t, session), 3)
			})
		})
	}
}

func TestWithoutKeysALostAnswerIsAnError(t *testing.T) {
	t.Parallel()
	server := start(t, lambaetest.Options{Fault: func(call string) *lambaetest.Fault {
		if call == opening {
			return &lambaetest.Fault{Status: 502}
		}
		return nil
	}})
	client, err := lambae.New(server.URL, server.ClientKey, &lambae.Options{NoIdempotencyKeys: true})
	require.NoError(t, err)
	_, err = client.Open(t.Context(), nil)
	require.Equal(t, 502, refusal(t, err).Status)
	require.Equal(t, 1, server.SessionCount())
}

func TestAKeyOfOnesOwnGivesTheSameSession(t *testing.T) {
	t.Parallel()
	server := start(t, lambaetest.Options{})
	first, err := server.Client().Open(t.Context(), &lambae.OpenRequest{IdempotencyKey: "k"})
	require.NoError(t, err)
	again, err := server.Client().Open(t.Context(), &lambae.OpenRequest{IdempotencyKey: "k"})
	require.NoError(t, err)
	require.Equal(t, first.Key, again.Key)
	_, err = server.Client().Open(t.Context(), &lambae.OpenRequest{IdempotencyKey: "k", ClientVersion: "other"})
	require.Equal(t, lambae.TypeIdempotencyMismatch, refusal(t, err).Type)
}
