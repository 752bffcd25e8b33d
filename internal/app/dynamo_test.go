package app_test

import (
	"context"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	attr "github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/require"

	"github.com/lambae/lambae/internal/table"
	"github.com/lambae/lambae/internal/table/dynamo"
	"github.com/lambae/lambae/internal/table/tabletest/ministack"
)

// calls counts requests to DynamoDB by kind.
type calls struct {
	mu sync.Mutex
	n  map[string]int
}

func (c *calls) add(op string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n[op]++
}

func (c *calls) take() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := c.n
	c.n = map[string]int{}
	return out
}

// dynamoTable makes a table of its own in the emulator.
func dynamoTable(t testing.TB, name string, count *calls) table.Table {
	t.Helper()
	client := ministack.Client(ministack.Endpoint(t))
	opts := &dynamo.Options{}
	if count != nil {
		opts.OnCall = count.add
	}
	tab, err := dynamo.Open(client, name, opts)
	require.NoError(t, err)
	return tab
}

func newDynamoTable(t testing.TB) string {
	t.Helper()
	name := ministack.TableName()
	require.NoError(t, dynamo.CreateTable(context.Background(), ministack.Client(ministack.Endpoint(t)), name))
	return name
}

// A warm turn reads the client key, the profile and the log's tail at once, and
// writes twice, a unit each: three round trips one after the other, with the model's between.
func TestAWarmTurnIsOneReadAndTwoWritesOnDynamoDB(t *testing.T) {
	t.Parallel()
	count := &calls{n: map[string]int{}}
	name := newDynamoTable(t)
	s := start(t, setup{table: dynamoTable(t, name, count)})
	d := s.open(s.profile(nil), `{}`)
	d.send("cold")
	count.take()
	for range 5 {
		d.send("warm")
		require.Equal(t, map[string]int{"BatchGetItem": 1, "Query": 1, "PutItem": 2}, count.take())
	}
	for _, size := range itemSizes(t, name, "S#"+d.id) {
		require.LessOrEqual(t, size, 1024, "one write unit a put")
	}
}

// itemSizes are the sizes of a partition's items as DynamoDB counts them, in
// bytes: names and values of all attributes.
func itemSizes(t *testing.T, name, partition string) (sizes []int) {
	t.Helper()
	out, err := ministack.Client(ministack.Endpoint(t)).Query(t.Context(), &dynamodb.QueryInput{
		TableName: &name, KeyConditionExpression: aws.String("pk = :pk"),
		ExpressionAttributeValues: map[string]attr.AttributeValue{":pk": &attr.AttributeValueMemberS{Value: partition}},
	})
	require.NoError(t, err)
	require.NotEmpty(t, out.Items)
	for _, item := range out.Items {
		size := 0
		for attribute, value := range item {
			size += len(attribute)
			switch v := value.(type) {
			case *attr.AttributeValueMemberS:
				size += len(v.Value)
			case *attr.AttributeValueMemberB:
				size += len(v.Value)
			case *attr.AttributeValueMemberN:
				size += len(v.Value) // an upper bound: two digits a byte, and one
			default:
				require.Fail(t, "an attribute of another type", attribute)
			}
		}
		sizes = append(sizes, size)
	}
	return sizes
}

// Two servers on one table are one service: either may serve any call.
func TestTwoServersShareASession(t *testing.T) {
	t.Parallel()
	name := newDynamoTable(t)
	one, two := start(t, setup{table: dynamoTable(t, name, nil)}), start(t, setup{table: dynamoTable(t, name, nil)})
	profile := one.profile(nil)
	d := one.open(profile, twoTools)
	elsewhere := &driver{server: two, id: d.id, key: d.key, keyID: d.keyID, client: d.client}
	sub := elsewhere.stream("session.subscribe", `{}`)
	d.send("from one")
	for _, want := range []string{"client.message.send", "provider.request", "provider.response", "server.message.send"} {
		require.Equal(t, want, sub.event().Type)
	}
	elsewhere.send("from two")
	log := d.log()
	require.Equal(t, log, elsewhere.log())
	require.Len(t, log, 2+8)
	other := elsewhere.join(profile, `{}`)
	var wg sync.WaitGroup
	for range 5 {
		for _, driver := range []*driver{d, other} {
			wg.Add(1)
			go func() { defer wg.Done(); driver.send("at once") }()
		}
	}
	wg.Wait()
	require.Len(t, d.log(), 2+8+2+10*4)
}
