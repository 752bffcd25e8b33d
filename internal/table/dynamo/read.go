package dynamo

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/lambae/lambae/internal/table"
)

// batchKeys is the most keys that one BatchGetItem takes.
const batchKeys = 100

// Get implements [table.Table].
func (t *Table) Get(ctx context.Context, keys ...table.Key) ([]table.Item, error) {
	for _, k := range keys {
		if err := table.CheckKey(k); err != nil {
			return nil, err
		}
	}
	if err := t.usable(ctx); err != nil {
		return nil, err
	}
	found := make(map[table.Key]table.Item, len(keys))
	if len(keys) == 1 {
		if err := t.getOne(ctx, keys[0], found); err != nil {
			return nil, err
		}
	} else if err := t.getBatches(ctx, keys, found); err != nil {
		return nil, err
	}
	got := make([]table.Item, len(keys))
	for i, k := range keys {
		got[i] = found[k]
		got[i].Key = k
	}
	return got, nil
}

func (t *Table) getOne(ctx context.Context, k table.Key, found map[table.Key]table.Item) error {
	in := &dynamodb.GetItemInput{TableName: &t.name, Key: keyAttributes(k), ConsistentRead: aws.Bool(true)}
	var out *dynamodb.GetItemOutput
	err := t.call(ctx, "GetItem", func(ctx context.Context, _ bool) (err error) {
		out, err = t.client.GetItem(ctx, in)
		return err
	})
	if err != nil {
		return t.explain("GetItem", fmt.Sprintf("get %q %q", k.PK, k.SK), err)
	}
	if out.Item == nil {
		return nil
	}
	return collect(found, out.Item)
}

func collect(found map[table.Key]table.Item, a attributes) error {
	it, err := decode(a)
	if err != nil {
		return err
	}
	found[it.Key] = it
	return nil
}

// getBatches reads distinct keys, a batch at a time. A batch may answer a part
// only, when it is large or the table is throttled; the rest is asked again.
func (t *Table) getBatches(ctx context.Context, keys []table.Key, found map[table.Key]table.Item) error {
	todo := distinct(keys)
	for failures := 0; len(todo) > 0; {
		batch := todo[:min(len(todo), batchKeys)]
		out, err := t.getBatch(ctx, batch)
		if err != nil {
			return t.explain("BatchGetItem", fmt.Sprintf("get %d items", len(batch)), err)
		}
		for _, a := range out.Responses[t.name] {
			if err := collect(found, a); err != nil {
				return err
			}
		}
		rest := out.UnprocessedKeys[t.name].Keys
		todo = append(rest, todo[len(batch):]...)
		if len(rest) < len(batch) {
			failures = 0
		} else {
			failures++
		}
		if len(rest) > 0 {
			if err := sleep(ctx, t.backOff(failures)); err != nil {
				return fmt.Errorf("dynamo: get %d items from table %s: %w", len(keys), t.name, err)
			}
		}
	}
	return nil
}

func distinct(keys []table.Key) []attributes {
	seen := make(map[table.Key]bool, len(keys))
	var out []attributes
	for _, k := range keys {
		if !seen[k] {
			seen[k] = true
			out = append(out, keyAttributes(k))
		}
	}
	return out
}

func (t *Table) getBatch(ctx context.Context, keys []attributes) (out *dynamodb.BatchGetItemOutput, err error) {
	in := &dynamodb.BatchGetItemInput{RequestItems: map[string]types.KeysAndAttributes{
		t.name: {Keys: keys, ConsistentRead: aws.Bool(true)},
	}}
	err = t.call(ctx, "BatchGetItem", func(ctx context.Context, _ bool) (err error) {
		out, err = t.client.BatchGetItem(ctx, in)
		return err
	})
	return out, err
}
