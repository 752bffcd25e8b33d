package apigateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"golang.org/x/sync/errgroup"

	"github.com/lambae/lambae/internal/session"
	"github.com/lambae/lambae/internal/table"
)

// Consumer takes the change stream of the table: whenever a session's log has
// grown, its connections are brought up to date.
type Consumer struct {
	Pusher *Pusher
	Logger *slog.Logger
}

// StreamEvent is a batch of the table's change stream. Its records are read one
// by one, so that one that is broken spoils no other, and only as far as they are
// needed: an item's image may be 350 KB.
type StreamEvent struct {
	Records []json.RawMessage `json:"Records"`
}

// record is what counts of a stream record.
type record struct {
	EventName string `json:"eventName"`
	Change    struct {
		Keys           map[string]events.DynamoDBAttributeValue `json:"Keys"`
		SequenceNumber string                                   `json:"SequenceNumber"`
	} `json:"dynamodb"`
}

// sessionsAtOnce is how many sessions of a batch are pushed at once.
const sessionsAtOnce = 8

// Handle pushes for every session that the batch has new chunks of. Records whose
// push failed are reported, so that they come again while the others do not have
// to; the stream of a session stays in order, for a push sends all that is due.
// An error means that a record could not even be named, and the whole batch comes
// again, in halves.
func (c *Consumer) Handle(ctx context.Context, event StreamEvent) (events.DynamoDBEventResponse, error) {
	began := time.Now()
	var (
		answer events.DynamoDBEventResponse
		broken error
		mu     sync.Mutex
		g      errgroup.Group
	)
	fail := func(sequence, sessionID string, err error) {
		c.Logger.Error("stream record failed", "sequence", sequence, "session", sessionID, "error", err)
		mu.Lock()
		defer mu.Unlock()
		answer.BatchItemFailures = append(answer.BatchItemFailures, events.DynamoDBBatchItemFailure{ItemIdentifier: sequence})
	}
	g.SetLimit(sessionsAtOnce)
	seen := map[string]bool{}
	for _, raw := range event.Records {
		id, sequence, err := read(raw)
		switch {
		case err != nil && sequence == "":
			broken = errors.Join(broken, err)
		case err != nil:
			fail(sequence, id, err)
		case id == "" || seen[id]:
		default:
			seen[id] = true
			g.Go(func() error {
				if err := c.Pusher.Push(ctx, id); err != nil {
					fail(sequence, id, err)
				}
				return nil
			})
		}
	}
	_ = g.Wait() // never fails: see fail
	c.Logger.Info("stream", "records", len(event.Records), "sessions", len(seen), "failed", len(answer.BatchItemFailures),
		"ms", time.Since(began).Milliseconds())
	return answer, broken
}

// read returns the session whose log a record has a new chunk of, "" for any
// other record. The sequence number is returned even with an error, if it can be
// made out.
func read(raw json.RawMessage) (sessionID, sequence string, err error) {
	var r record
	if err := json.Unmarshal(raw, &r); err != nil {
		var bare struct {
			Change struct {
				SequenceNumber string `json:"SequenceNumber"`
			} `json:"dynamodb"`
		}
		_ = json.Unmarshal(raw, &bare)
		return "", bare.Change.SequenceNumber, fmt.Errorf("read a stream record: %w", err)
	}
	sequence = r.Change.SequenceNumber
	pk, sk := r.Change.Keys["pk"], r.Change.Keys["sk"]
	if sequence == "" || pk.DataType() != events.DataTypeString || sk.DataType() != events.DataTypeString {
		return "", sequence, errors.New("read a stream record: sequence number, pk or sk is missing")
	}
	if r.EventName != string(events.DynamoDBOperationTypeInsert) {
		return "", sequence, nil
	}
	sessionID, _ = session.ChunkOwner(table.Key{PK: pk.String(), SK: sk.String()})
	return sessionID, sequence, nil
}
