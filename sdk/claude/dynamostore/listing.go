package dynamostore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/lambae/lambae/sdk/claude"
)

// summarise makes sure that a session's summary covers chunk upTo. Whoever is
// first folds in all chunks that are missing, its own and those of writers that
// are still on their way here, or never arrived.
func (s *Store) summarise(ctx context.Context, key claude.SessionKey, upTo int) error {
	for {
		prev, covered, err := s.summary(ctx, key)
		if err != nil {
			return err
		}
		if covered > upTo {
			return nil
		}
		next := claude.SessionSummary{SessionID: key.SessionID}
		if prev != nil {
			next = *prev
		}
		from := covered
		err = s.eachChunk(ctx, key, from, func(n int, entries []claude.Entry) error {
			var base *claude.SessionSummary
			if n > 0 {
				base = &next
			}
			next = claude.FoldSessionSummary(base, key, entries, 0)
			covered = n + 1
			return nil
		})
		if err != nil {
			return fmt.Errorf("summarise: %w", err)
		}
		if covered <= upTo {
			return nil // the session was deleted meanwhile
		}
		next.MTime = s.now().UnixMilli()
		if prev != nil {
			next.MTime = max(next.MTime, prev.MTime+1) // clocks of writers differ
		}
		won, err := s.putSummary(ctx, key, next, from, covered)
		if err != nil || won {
			return err
		}
	}
}

func (s *Store) summary(ctx context.Context, key claude.SessionKey) (prev *claude.SessionSummary, covered int, err error) {
	out, err := s.db.GetItem(ctx, &dynamodb.GetItemInput{
		TableName: &s.table, ConsistentRead: aws.Bool(true), Key: summaryKey(key),
	})
	if err != nil {
		return nil, 0, fmt.Errorf("read summary: %w", err)
	}
	if out.Item == nil {
		return nil, 0, nil
	}
	summary := summaryOf(out.Item)
	return &summary, int(numberOf(out.Item, "covers")), nil
}

func summaryKey(key claude.SessionKey) map[string]types.AttributeValue {
	return map[string]types.AttributeValue{"pk": text("P#" + escape(key.ProjectKey)), "sk": text(escape(key.SessionID))}
}

func summaryOf(item map[string]types.AttributeValue) claude.SessionSummary {
	return claude.SessionSummary{
		SessionID: unescape(textOf(item, "sk")), MTime: numberOf(item, "mtime"), Data: json.RawMessage(textOf(item, "data")),
	}
}

// putSummary replaces the summary that covered from chunks.
func (s *Store) putSummary(ctx context.Context, key claude.SessionKey, next claude.SessionSummary, from, covered int) (won bool, err error) {
	item := summaryKey(key)
	item["data"], item["mtime"], item["covers"] = text(string(next.Data)), number(next.MTime), number(covered)
	in := &dynamodb.PutItemInput{TableName: &s.table, Item: item, ConditionExpression: aws.String("attribute_not_exists(pk)")}
	if from > 0 {
		in.ConditionExpression = aws.String("covers = :from")
		in.ExpressionAttributeValues = map[string]types.AttributeValue{":from": number(from)}
	}
	_, err = s.db.PutItem(ctx, in)
	var lost *types.ConditionalCheckFailedException
	if errors.As(err, &lost) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("put summary: %w", err)
	}
	return true, nil
}

// ListSessions implements [claude.SessionLister].
func (s *Store) ListSessions(ctx context.Context, projectKey string) ([]claude.SessionStamp, error) {
	summaries, err := s.ListSessionSummaries(ctx, projectKey)
	if err != nil {
		return nil, err
	}
	var stamps []claude.SessionStamp
	for _, summary := range summaries {
		stamps = append(stamps, claude.SessionStamp{SessionID: summary.SessionID, MTime: summary.MTime})
	}
	return stamps, nil
}

// ListSessionSummaries implements [claude.SummaryLister].
func (s *Store) ListSessionSummaries(ctx context.Context, projectKey string) ([]claude.SessionSummary, error) {
	var summaries []claude.SessionSummary
	err := s.query(ctx, &dynamodb.QueryInput{
		KeyConditionExpression:    aws.String("pk = :pk"),
		ExpressionAttributeValues: map[string]types.AttributeValue{":pk": text("P#" + escape(projectKey))},
	}, func(item map[string]types.AttributeValue) error {
		summaries = append(summaries, summaryOf(item))
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list sessions of %s: %w", projectKey, err)
	}
	return summaries, nil
}

func (s *Store) putSubkey(ctx context.Context, key claude.SessionKey) error {
	_, err := s.db.PutItem(ctx, &dynamodb.PutItemInput{TableName: &s.table, Item: map[string]types.AttributeValue{
		"pk": text(sessionPK(key.ProjectKey, key.SessionID)), "sk": text("K#" + escape(key.Subpath)),
	}})
	if err != nil {
		return fmt.Errorf("put subkey: %w", err)
	}
	return nil
}

// ListSubkeys implements [claude.SubkeyLister].
func (s *Store) ListSubkeys(ctx context.Context, projectKey, sessionID string) ([]string, error) {
	var subpaths []string
	err := s.query(ctx, &dynamodb.QueryInput{
		KeyConditionExpression: aws.String("pk = :pk AND begins_with(sk, :k)"),
		ExpressionAttributeValues: map[string]types.AttributeValue{
			":pk": text(sessionPK(projectKey, sessionID)), ":k": text("K#"),
		},
	}, func(item map[string]types.AttributeValue) error {
		subpaths = append(subpaths, unescape(strings.TrimPrefix(textOf(item, "sk"), "K#")))
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list subagents of %s/%s: %w", projectKey, sessionID, err)
	}
	return subpaths, nil
}

// DeleteSession implements [claude.SessionDeleter]. It must not run at once
// with appends to the same session: those may come back in part.
func (s *Store) DeleteSession(ctx context.Context, key claude.SessionKey) error {
	defer s.forget(key)
	in := &dynamodb.QueryInput{
		KeyConditionExpression:    aws.String("pk = :pk"),
		ExpressionAttributeValues: map[string]types.AttributeValue{":pk": text(sessionPK(key.ProjectKey, key.SessionID))},
		ProjectionExpression:      aws.String("pk, sk, nonce, parts"),
	}
	if key.Subpath != "" {
		in.KeyConditionExpression = aws.String("pk = :pk AND begins_with(sk, :prefix)")
		in.ExpressionAttributeValues[":prefix"] = text(chunkPrefix(key))
	}
	// Listings first: what is half deleted must not be shown.
	listing := summaryKey(key)
	if key.Subpath != "" {
		listing = map[string]types.AttributeValue{
			"pk": text(sessionPK(key.ProjectKey, key.SessionID)), "sk": text("K#" + escape(key.Subpath)),
		}
	}
	if err := s.delete(ctx, listing); err != nil {
		return fmt.Errorf("delete %s: %w", key, err)
	}
	err := s.query(ctx, in, func(item map[string]types.AttributeValue) error {
		for i := range int(numberOf(item, "parts")) {
			part := map[string]types.AttributeValue{"pk": text("B#" + textOf(item, "nonce")), "sk": text(partSK(i))}
			if err := s.delete(ctx, part); err != nil {
				return err
			}
		}
		return s.delete(ctx, map[string]types.AttributeValue{"pk": item["pk"], "sk": item["sk"]})
	})
	if err != nil {
		return fmt.Errorf("delete %s: %w", key, err)
	}
	return nil
}

func (s *Store) delete(ctx context.Context, key map[string]types.AttributeValue) error {
	_, err := s.db.DeleteItem(ctx, &dynamodb.DeleteItemInput{TableName: &s.table, Key: key})
	return err
}
