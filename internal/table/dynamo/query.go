package dynamo

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/lambae/lambae/internal/table"
)

// Query implements [table.Table]. A page is what DynamoDB reads at once: as much
// as the range's limit, or 1 MB.
func (t *Table) Query(ctx context.Context, r table.Range) iter.Seq2[table.Item, error] {
	return func(yield func(table.Item, error) bool) {
		if err := t.query(ctx, r, func(it table.Item) bool { return yield(it, nil) }); err != nil {
			yield(table.Item{}, err)
		}
	}
}

func (t *Table) query(ctx context.Context, r table.Range, yield func(table.Item) bool) error {
	if err := table.CheckRange(r); err != nil {
		return err
	}
	if r.Empty() {
		return t.usable(ctx)
	}
	cond := newKeyCondition(r)
	in := &dynamodb.QueryInput{
		TableName:                 &t.name,
		ConsistentRead:            aws.Bool(true),
		ScanIndexForward:          aws.Bool(!r.Reverse),
		KeyConditionExpression:    &cond.expr,
		ExpressionAttributeValues: cond.values,
	}
	for left := r.Limit; ; {
		if r.Limit > 0 {
			in.Limit = aws.Int32(int32(min(left+cond.extra(), 1<<30)))
		}
		out, err := t.page(ctx, in)
		if err != nil {
			return t.explain("Query", fmt.Sprintf("query %q from %q to %q", r.PK, r.From, r.To), err)
		}
		for _, a := range out.Items {
			it, err := decode(a)
			if err != nil {
				return err
			}
			if it.SK == cond.notWanted {
				continue
			}
			if !yield(it) {
				return nil
			}
			if left--; left == 0 {
				return nil
			}
		}
		if len(out.LastEvaluatedKey) == 0 {
			return nil
		}
		in.ExclusiveStartKey = out.LastEvaluatedKey
	}
}

func (t *Table) page(ctx context.Context, in *dynamodb.QueryInput) (out *dynamodb.QueryOutput, err error) {
	err = t.call(ctx, "Query", func(ctx context.Context, _ bool) (err error) {
		out, err = t.client.Query(ctx, in)
		return err
	})
	return out, err
}

// A keyCondition selects a range in DynamoDB's words. These allow one comparison
// of the sort key, so that a range with two ends is a BETWEEN, which includes
// its upper end: that item is notWanted.
type keyCondition struct {
	expr      string
	values    attributes
	notWanted string
}

func newKeyCondition(r table.Range) keyCondition {
	c := keyCondition{expr: "pk = :pk", values: attributes{":pk": text(r.PK)}}
	to := r.To
	if prefix, ok := strings.CutSuffix(r.To, "\xff"); ok {
		if prefix != "" && prefix == r.From {
			c.expr += " AND begins_with(sk, :from)"
			c.values[":from"] = text(r.From)
			return c
		}
		to = successor(prefix)
	}
	switch {
	case r.From != "" && to != "":
		c.expr += " AND sk BETWEEN :from AND :to"
		c.notWanted = to
	case r.From != "":
		c.expr += " AND sk >= :from"
	case to != "":
		c.expr += " AND sk < :to"
	}
	if r.From != "" {
		c.values[":from"] = text(r.From)
	}
	if to != "" {
		c.values[":to"] = text(to)
	}
	return c
}

// extra is how many items a page must have more than are wanted.
func (c keyCondition) extra() int {
	if c.notWanted != "" {
		return 1
	}
	return 0
}

// successor is the least text above all that start with prefix; "" when there is
// none.
func successor(prefix string) string {
	for prefix != "" {
		last, size := utf8.DecodeLastRuneInString(prefix)
		prefix = prefix[:len(prefix)-size]
		switch last {
		case utf8.MaxRune:
			continue
		case 0xD7FF: // what follows are surrogates, which are no text
			return prefix + "\uE000"
		}
		return prefix + string(last+1)
	}
	return ""
}
