package apigateway_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lambae/lambae/internal/push/apigateway"
	"github.com/lambae/lambae/internal/push/pushtest"
	"github.com/lambae/lambae/internal/table"
)

func TestRepeatedRecordsPushNothingTwice(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p, other := w.process(t), w.process(t)
	id := p.subscribe(t, "")
	w.append(2)
	records := w.take()
	for range 3 {
		require.Empty(t, p.stream(t, records...))
		require.Empty(t, other.stream(t, records...))
	}
	p.say(t, id, pingFrame)
	require.Equal(t, ids(t, w.log)[1:], w.gateway.Events(id))
}

func TestABrokenRecordIsReportedAndTheRestGoesOn(t *testing.T) {
	t.Parallel()
	for name, broken := range map[string]string{
		"no keys":         `{"eventName":"INSERT","dynamodb":{"SequenceNumber":"7"}}`,
		"keys of numbers": `{"eventName":"INSERT","dynamodb":{"Keys":{"pk":{"N":"1"},"sk":{"N":"2"}},"SequenceNumber":"7"}}`,
		"keys of nothing": `{"eventName":"INSERT","dynamodb":{"Keys":7,"SequenceNumber":"7"}}`,
		"a made-up type":  `{"eventName":"INSERT","dynamodb":{"Keys":{"pk":{"?":"1"}},"SequenceNumber":"7"}}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			p := w.process(t)
			id := p.subscribe(t, "")
			w.append(1)
			batch := append([]json.RawMessage{json.RawMessage(broken)}, w.take()...)
			require.Equal(t, []string{"7"}, p.stream(t, batch...))
			require.Equal(t, ids(t, w.log)[1:], w.gateway.Events(id))
		})
	}
	t.Run("without a name it fails the batch, after the rest", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		p := w.process(t)
		id := p.subscribe(t, "")
		w.append(1)
		_, err := p.consumer.Handle(t.Context(), apigateway.StreamEvent{Records: append(w.take(), json.RawMessage(`{"eventName":7}`))})
		require.Error(t, err)
		require.Equal(t, ids(t, w.log)[1:], w.gateway.Events(id))
	})
}

func TestOnlyNewChunksArePushed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.process(t)
	id := p.subscribe(t, "")
	w.append(1)
	w.take()
	chunk := table.Key{PK: "S#" + w.session, SK: "L#000000000001"}
	require.Empty(t, p.stream(t,
		streamRecord("MODIFY", chunk, "1"),
		streamRecord("REMOVE", chunk, "2"),
		streamRecord("INSERT", table.Key{PK: "S#" + w.session, SK: "SNAP"}, "3"),
		streamRecord("INSERT", table.Key{PK: "S#other", SK: "L#000000000001"}, "4"),
		streamRecord("INSERT", table.Key{PK: "WS#" + w.session, SK: "L#x"}, "5"),
	))
	require.Empty(t, w.gateway.Events(id))
	require.Empty(t, p.stream(t, streamRecord("INSERT", chunk, "6")))
	require.Equal(t, ids(t, w.log)[1:], w.gateway.Events(id))
}

// A table that fails delays pushes of its sessions only, and loses nothing.
func TestASessionThatCannotBeReadIsReported(t *testing.T) {
	t.Parallel()
	memory := new(pushtest.Memory)
	w := newWorldOn(t, memory, func(streamed func(table.Key)) { memory.Inserted = streamed })
	p := w.process(t)
	id := p.subscribe(t, "")
	otherSession, otherKey, otherLog := w.open(t)
	other := p.connect(t, otherSession, otherKey)
	p.say(t, other, subscribeFrame(""))
	w.take()
	w.append(1)
	w.append(1)
	appendTo(t, otherLog, 1, `{}`)
	batch := w.take()
	require.Len(t, batch, 3)
	var failing atomic.Bool
	failing.Store(true)
	memory.Fault = func(op string, k table.Key) (before, after error) {
		if failing.Load() && op == "Query" && k.PK == "S#"+w.session {
			return errors.New("throttled"), nil
		}
		return nil, nil
	}
	var first struct {
		Change struct{ SequenceNumber string } `json:"dynamodb"`
	}
	require.NoError(t, json.Unmarshal(batch[0], &first))
	require.Equal(t, []string{first.Change.SequenceNumber}, p.stream(t, batch...), "the session's first record")
	require.Empty(t, w.gateway.Events(id))
	require.Equal(t, ids(t, otherLog)[1:], w.gateway.Events(other))
	failing.Store(false)
	require.Empty(t, p.stream(t, batch...))
	require.Equal(t, ids(t, w.log)[1:], w.gateway.Events(id))
	require.Equal(t, ids(t, otherLog)[1:], w.gateway.Events(other), "nothing came twice")
}

// When the position cannot be written after a push, events come twice, never none.
func TestAPositionThatIsNotWrittenCostsRepeatsOnly(t *testing.T) {
	t.Parallel()
	memory := new(pushtest.Memory)
	w := newWorldOn(t, memory, func(streamed func(table.Key)) { memory.Inserted = streamed })
	p := w.process(t)
	id := p.subscribe(t, "")
	w.append(2)
	var failures atomic.Int64
	memory.Fault = func(op string, k table.Key) (before, after error) {
		if op == "Put" && strings.HasPrefix(k.PK, "WS#") && failures.Add(1) <= 2 {
			return errors.New("connection reset"), nil
		}
		return nil, nil
	}
	batch := w.take()
	require.Len(t, p.stream(t, batch...), 1)
	require.Len(t, p.stream(t, batch...), 1)
	require.Empty(t, p.stream(t, batch...))
	got := w.gateway.Events(id)
	require.Len(t, got, 6)
	require.Equal(t, ids(t, w.log)[1:], pushtest.First(got))
}

// What a push costs is in the table of docs/aws.md.
func TestAPushIsTwoQueriesAndAPutForEachSubscriber(t *testing.T) {
	t.Parallel()
	memory := new(pushtest.Memory)
	w := newWorldOn(t, memory, func(streamed func(table.Key)) { memory.Inserted = streamed })
	p := w.process(t)
	pushed := func() map[string]int {
		w.append(2)
		batch, calls := w.take(), map[string]int{}
		var mu sync.Mutex
		memory.Fault = func(op string, k table.Key) (before, after error) {
			mu.Lock()
			defer mu.Unlock()
			calls[op+" "+k.PK[:2]]++
			return nil, nil
		}
		require.Empty(t, p.stream(t, batch...))
		memory.Fault = nil
		return calls
	}
	require.Equal(t, map[string]int{"Query WS": 1}, pushed(), "nobody watches")
	for range 3 {
		p.subscribe(t, "")
	}
	require.Equal(t, map[string]int{"Query WS": 1, "Query S#": 1, "Put WS": 3}, pushed())
}

func ExampleConsumer() {
	// A batch of the stream as Lambda hands it over; the answer names what is to
	// come again.
	consumer := apigateway.Consumer{Logger: discard}
	answer, err := consumer.Handle(context.Background(), apigateway.StreamEvent{Records: []json.RawMessage{
		json.RawMessage(`{"eventName":"INSERT","dynamodb":{"SequenceNumber":"111"}}`),
	}})
	fmt.Println(answer.BatchItemFailures, err)
	// Output: [{111}] <nil>
}
