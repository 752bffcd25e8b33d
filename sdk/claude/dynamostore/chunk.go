package dynamostore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/klauspost/compress/zstd"
	"github.com/lambae/lambae/sdk/claude"
)

const (
	// chunkBytes is how much goes into one chunk before compression; an entry
	// larger than that is a chunk of its own.
	chunkBytes = 1 << 20
	// itemBytes is what one item carries. DynamoDB's limit is 400 KB with
	// everything; the rest is room for keys.
	itemBytes = 350 << 10
)

// chunkLength is how many of the entries make the next chunk, at least one.
func chunkLength(entries []claude.Entry) int {
	size := 0
	for i, e := range entries {
		if size += len(e) + 1; size > chunkBytes && i > 0 {
			return i
		}
	}
	return len(entries)
}

func compress(entries []claude.Entry) ([]byte, error) {
	var out bytes.Buffer
	w, err := zstd.NewWriter(&out, zstd.WithEncoderConcurrency(1))
	if err != nil {
		return nil, err
	}
	for i, e := range entries {
		// Entries are kept as they are; NUL cannot occur in JSON text.
		if i > 0 {
			_, _ = w.Write([]byte{0})
		}
		if _, err := w.Write(e); err != nil {
			return nil, err
		}
	}
	err = w.Close()
	return out.Bytes(), err
}

func decompress(body []byte) ([]claude.Entry, error) {
	r, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1))
	if err != nil {
		return nil, err
	}
	defer r.Close()
	plain, err := r.DecodeAll(body, nil)
	if err != nil {
		return nil, err
	}
	var entries []claude.Entry
	for part := range bytes.SplitSeq(plain, []byte{0}) {
		entries = append(entries, claude.Entry(part))
	}
	return entries, nil
}

func text(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }

func number[T int | int64](n T) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: strconv.FormatInt(int64(n), 10)}
}

func textOf(item map[string]types.AttributeValue, name string) string {
	v, _ := item[name].(*types.AttributeValueMemberS)
	if v == nil {
		return ""
	}
	return v.Value
}

func numberOf(item map[string]types.AttributeValue, name string) int64 {
	v, _ := item[name].(*types.AttributeValueMemberN)
	if v == nil {
		return 0
	}
	n, _ := strconv.ParseInt(v.Value, 10, 64) // written by number
	return n
}

func bytesOf(item map[string]types.AttributeValue, name string) []byte {
	v, _ := item[name].(*types.AttributeValueMemberB)
	if v == nil {
		return nil
	}
	return v.Value
}

// putChunk puts chunk n if nobody has. The nonce tells a put whose answer was
// lost, and that the AWS SDK repeated, from one that another writer won.
func (s *Store) putChunk(ctx context.Context, key claude.SessionKey, n int, nonce string, entries []claude.Entry) (won bool, err error) {
	body, err := compress(entries)
	if err != nil {
		return false, fmt.Errorf("compress: %w", err)
	}
	item := map[string]types.AttributeValue{
		"pk": text(sessionPK(key.ProjectKey, key.SessionID)), "sk": text(chunkSK(key, n)), "nonce": text(nonce),
	}
	if len(body) <= itemBytes {
		item["body"] = &types.AttributeValueMemberB{Value: body}
	} else {
		parts, err := s.putParts(ctx, nonce, body)
		if err != nil {
			return false, err
		}
		item["parts"] = number(parts)
	}
	_, err = s.db.PutItem(ctx, &dynamodb.PutItemInput{
		TableName: &s.table, Item: item, ConditionExpression: aws.String("attribute_not_exists(pk)"),
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	})
	var lost *types.ConditionalCheckFailedException
	if errors.As(err, &lost) {
		return textOf(lost.Item, "nonce") == nonce, nil
	}
	if err != nil {
		return false, fmt.Errorf("put chunk %d: %w", n, err)
	}
	return true, nil
}

// putParts writes a large body ahead of the chunk that names it. Parts of a
// chunk that loses its race are written again under the same nonce, so none
// are left over.
func (s *Store) putParts(ctx context.Context, nonce string, body []byte) (int, error) {
	parts := 0
	for ; len(body) > 0; parts++ {
		part := body[:min(len(body), itemBytes)]
		body = body[len(part):]
		_, err := s.db.PutItem(ctx, &dynamodb.PutItemInput{TableName: &s.table, Item: map[string]types.AttributeValue{
			"pk": text("B#" + nonce), "sk": text(partSK(parts)), "body": &types.AttributeValueMemberB{Value: part},
		}})
		if err != nil {
			return 0, fmt.Errorf("put part %d: %w", parts, err)
		}
	}
	return parts, nil
}

func partSK(i int) string { return fmt.Sprintf("%06d", i) }

// eachChunk reads a transcript's chunks from a number on, in order.
func (s *Store) eachChunk(ctx context.Context, key claude.SessionKey, from int, each func(n int, entries []claude.Entry) error) error {
	prefix := chunkPrefix(key)
	expect := from
	return s.query(ctx, &dynamodb.QueryInput{
		KeyConditionExpression: aws.String("pk = :pk AND sk BETWEEN :from AND :to"),
		ExpressionAttributeValues: map[string]types.AttributeValue{
			":pk": text(sessionPK(key.ProjectKey, key.SessionID)), ":from": text(chunkSK(key, from)), ":to": text(prefix + "999999999999"),
		},
	}, func(item map[string]types.AttributeValue) error {
		n, err := strconv.Atoi(strings.TrimPrefix(textOf(item, "sk"), prefix))
		if err != nil {
			return fmt.Errorf("chunk %q has no number", textOf(item, "sk"))
		}
		if n != expect {
			return errGap // put after this read began; the rest comes with the next
		}
		expect++
		entries, err := s.chunkEntries(ctx, item)
		if err != nil {
			return fmt.Errorf("chunk %d: %w", n, err)
		}
		return each(n, entries)
	})
}

func (s *Store) chunkEntries(ctx context.Context, item map[string]types.AttributeValue) ([]claude.Entry, error) {
	body := bytesOf(item, "body")
	if parts := int(numberOf(item, "parts")); parts > 0 {
		for i := range parts {
			part, err := s.db.GetItem(ctx, &dynamodb.GetItemInput{
				TableName: &s.table, ConsistentRead: aws.Bool(true),
				Key: map[string]types.AttributeValue{"pk": text("B#" + textOf(item, "nonce")), "sk": text(partSK(i))},
			})
			if err != nil {
				return nil, fmt.Errorf("read part %d: %w", i, err)
			}
			if part.Item == nil {
				return nil, fmt.Errorf("part %d is missing", i)
			}
			body = append(body, bytesOf(part.Item, "body")...)
		}
	}
	return decompress(body)
}

// errGap ends a query early, without an error.
var errGap = errors.New("gap")

// query runs through all pages of a consistent query.
func (s *Store) query(ctx context.Context, in *dynamodb.QueryInput, each func(map[string]types.AttributeValue) error) error {
	in.TableName, in.ConsistentRead = &s.table, aws.Bool(true)
	pages := dynamodb.NewQueryPaginator(s.db, in)
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return fmt.Errorf("query: %w", err)
		}
		for _, item := range page.Items {
			if err := each(item); errors.Is(err, errGap) {
				return nil
			} else if err != nil {
				return err
			}
		}
	}
	return nil
}
