package dynamo

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/lambae/lambae/internal/table"
)

// errOverwritten: an answer was lost, the condition fails now, and the item does
// not tell whether it failed then.
var errOverwritten = errors.New("an answer was lost and the item was written again since: the outcome is unknown")

// Put implements [table.Table]. A conditional put whose answer was lost is asked
// again, and recognises its own item by the nonce. A plain put that is asked
// again may write over what somebody else has written in between.
//
// A conditional delete leaves nothing behind to recognise; it is a transaction,
// whose token DynamoDB itself remembers. It costs twice.
func (t *Table) Put(ctx context.Context, op table.Op) (int64, error) {
	if err := table.CheckOps(op); err != nil {
		return 0, err
	}
	switch {
	case !op.Delete:
		return t.put(ctx, op)
	case op.If == table.Condition{}:
		return 0, t.delete(ctx, op.Key)
	}
	return 0, t.transact(ctx, op)
}

func (t *Table) put(ctx context.Context, op table.Op) (int64, error) {
	version, nonce := t.version(op.If), t.nonce()
	in := &dynamodb.PutItemInput{TableName: &t.name, Item: newItem(op, version, nonce)}
	in.ConditionExpression, in.ExpressionAttributeValues = expression(op.If)
	err := t.call(ctx, "PutItem", func(ctx context.Context, unsure bool) error {
		if unsure && in.ConditionExpression != nil {
			in.ReturnValuesOnConditionCheckFailure = types.ReturnValuesOnConditionCheckFailureAllOld
		}
		_, err := t.client.PutItem(ctx, in)
		var failed *types.ConditionalCheckFailedException
		switch {
		case !errors.As(err, &failed):
			return err
		case unsure:
			return settle(op.If, nonce, failed.Item)
		}
		return table.ErrCondition
	})
	switch {
	case err == nil:
		return version, nil
	case errors.Is(err, table.ErrCondition):
		return 0, table.ErrCondition
	}
	return 0, t.explain("PutItem", fmt.Sprintf("put %q %q", op.PK, op.SK), err)
}

// settle decides a put whose condition fails after an attempt that may have
// landed, by the item that is there now.
func settle(c table.Condition, nonce []byte, found attributes) error {
	if w, ok := found["w"].(*types.AttributeValueMemberB); ok && bytes.Equal(w.Value, nonce) {
		return nil
	}
	version, err := numberIn(found, "v")
	if err == nil && version != 0 && rivals(c, version) {
		return table.ErrCondition
	}
	return errOverwritten
}

func (t *Table) delete(ctx context.Context, k table.Key) error {
	in := &dynamodb.DeleteItemInput{TableName: &t.name, Key: keyAttributes(k)}
	err := t.call(ctx, "DeleteItem", func(ctx context.Context, _ bool) error {
		_, err := t.client.DeleteItem(ctx, in)
		return err
	})
	if err != nil {
		return t.explain("DeleteItem", fmt.Sprintf("delete %q %q", k.PK, k.SK), err)
	}
	return nil
}

// Write implements [table.Table].
func (t *Table) Write(ctx context.Context, ops ...table.Op) error {
	if err := table.CheckOps(ops...); err != nil {
		return err
	}
	if len(ops) == 0 {
		return t.usable(ctx)
	}
	return t.transact(ctx, ops...)
}

func (t *Table) transact(ctx context.Context, ops ...table.Op) error {
	// The token makes DynamoDB answer a repeated transaction like the first, for
	// ten minutes: a condition that fails has failed the first time.
	in := &dynamodb.TransactWriteItemsInput{ClientRequestToken: aws.String(hex.EncodeToString(t.token()))}
	for _, op := range ops {
		in.TransactItems = append(in.TransactItems, t.transactItem(op))
	}
	err := t.call(ctx, "TransactWriteItems", func(ctx context.Context, _ bool) error {
		_, err := t.client.TransactWriteItems(ctx, in)
		return cancelled(err)
	})
	switch {
	case err == nil:
		return nil
	case errors.Is(err, table.ErrCondition):
		return table.ErrCondition
	}
	return t.explain("TransactWriteItems", fmt.Sprintf("write %d items at once", len(ops)), err)
}

func (t *Table) token() []byte { return append(t.nonce(), t.nonce()...) }

func (t *Table) transactItem(op table.Op) types.TransactWriteItem {
	expr, values := expression(op.If)
	switch {
	case !op.Delete:
		return types.TransactWriteItem{Put: &types.Put{
			TableName: &t.name, Item: newItem(op, t.version(op.If), t.nonce()),
			ConditionExpression: expr, ExpressionAttributeValues: values,
		}}
	case op.If.Absent():
		return types.TransactWriteItem{ConditionCheck: &types.ConditionCheck{
			TableName: &t.name, Key: keyAttributes(op.Key), ConditionExpression: expr,
		}}
	}
	return types.TransactWriteItem{Delete: &types.Delete{
		TableName: &t.name, Key: keyAttributes(op.Key),
		ConditionExpression: expr, ExpressionAttributeValues: values,
	}}
}

// cancelled turns a transaction that was cancelled into the error of its
// reasons: a condition, or else one that can be asked again.
func cancelled(err error) error {
	var c *types.TransactionCanceledException
	if !errors.As(err, &c) {
		return err
	}
	var again error
	for _, r := range c.CancellationReasons {
		switch code := aws.ToString(r.Code); code {
		case "ConditionalCheckFailed":
			return table.ErrCondition
		case "TransactionConflict":
			again = &types.TransactionConflictException{Message: c.Message}
		case "ThrottlingError", "ProvisionedThroughputExceeded":
			again = &types.ProvisionedThroughputExceededException{Message: c.Message}
		}
	}
	if again != nil {
		return again
	}
	return err
}
