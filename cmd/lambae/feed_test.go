package main

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/lambae/lambae/sdk/lambae"
)

func message(id int, key, text string) lambae.Event {
	content, _ := lambae.UserMessage(text).Content.MarshalJSON()
	return lambae.Event{
		ID: fmt.Sprint("evt_", id), ClientKeyID: key, Type: lambae.EventClientMessage,
		Payload: fmt.Appendf(nil, `{"role":"user","content":%s}`, content),
	}
}

func other(id int, key string) lambae.Event {
	return lambae.Event{ID: fmt.Sprint("evt_", id), ClientKeyID: key, Type: lambae.EventServerMessage, Payload: []byte(`{"role":"assistant","content":"x"}`)}
}

// The log holds turns of others, even by the same key, and turns of the user's
// own; the subscription lags behind the user's own stream by any amount.
func TestTheFeedShowsAllOfOthersAndNothingTwice(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		var shown, want []string
		f := newFeed(func(event lambae.Event, _ bool) { shown = append(shown, event.ID) })
		var subscription []lambae.Event // what it has still to bring
		bring := func(label string) {
			for n := rapid.IntRange(0, len(subscription)).Draw(rt, label); n > 0; n-- {
				f.event(subscription[0])
				subscription = subscription[1:]
			}
		}
		id := 0
		add := func(event lambae.Event) lambae.Event {
			id++
			subscription = append(subscription, event)
			return event
		}
		stranger := func() {
			key := rapid.SampledFrom([]string{"key_me", "key_else"}).Draw(rt, "key")
			for _, event := range []lambae.Event{add(message(id, key, "theirs")), add(other(id, key))} {
				want = append(want, event.ID)
			}
		}
		for range rapid.IntRange(1, 4).Draw(rt, "turns") {
			if rapid.Bool().Draw(rt, "stranger") {
				stranger()
			}
			bring("before")
			f.begin("mine")
			if rapid.Bool().Draw(rt, "queued") { // behind a turn of somebody else
				stranger()
				bring("waiting")
			}
			turn := []lambae.Event{add(message(id, "key_me", "mine"))} // not in the own stream
			bring("begun")
			for range rapid.IntRange(1, 3).Draw(rt, "events") {
				event := add(other(id, "key_me"))
				turn = append(turn, event)
				f.own(event)
				bring("running")
			}
			if rapid.Bool().Draw(rt, "join") { // happens at any time, in nobody's turn
				want = append(want, add(other(id, "key_else")).ID)
			}
			bring("late")
			f.end(&lambae.Result{Events: turn})
			bring("after")
		}
		for _, event := range subscription {
			f.event(event)
		}
		require.Equal(rt, want, shown)
	})
}

func TestTheFeedShowsTheRestOfATurnThatIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	var shown []string
	f := newFeed(func(event lambae.Event, own bool) {
		require.True(t, own)
		shown = append(shown, event.ID)
	})
	f.begin("mine")
	f.event(message(1, "key_me", "mine"))
	f.own(other(2, "key_me"))
	f.event(other(2, "key_me"))
	f.event(other(3, "key_me"))
	f.end(nil) // interrupted
	f.event(other(4, "key_me"))
	require.Equal(t, []string{"evt_3", "evt_4"}, shown)
	require.False(t, f.closed())
	f.event(lambae.Event{ID: "evt_5", ClientKeyID: "key_me", Type: lambae.EventSessionClose})
	require.True(t, f.closed())
}
