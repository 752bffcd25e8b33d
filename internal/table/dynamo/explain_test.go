package dynamo_test

import (
	"context"
	"errors"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/require"

	"github.com/lambae/lambae/internal/table"
	"github.com/lambae/lambae/internal/table/dynamo"
	"github.com/lambae/lambae/internal/table/tabletest/faulty"
	"github.com/lambae/lambae/internal/table/tabletest/ministack"
)

// everyCall makes each call of a table once and returns the errors by operation.
func everyCall(ctx context.Context, tbl *dynamo.Table) map[string]error {
	two := table.Key{PK: "p", SK: "b"}
	errs := map[string]error{}
	_, errs["GetItem"] = tbl.Get(ctx, key)
	_, errs["BatchGetItem"] = tbl.Get(ctx, key, two)
	_, errs["PutItem"] = tbl.Put(ctx, table.Op{Key: key})
	_, errs["DeleteItem"] = tbl.Put(ctx, table.Op{Key: key, Delete: true})
	errs["TransactWriteItems"] = tbl.Write(ctx, table.Op{Key: key}, table.Op{Key: two})
	for _, err := range tbl.Query(ctx, table.Range{PK: "p"}) {
		errs["Query"] = err
	}
	return errs
}

func TestAMissingTableSaysWhatToDo(t *testing.T) {
	t.Parallel()
	tbl, err := dynamo.Open(ministack.Client(ministack.Endpoint(t)), "nowhere", nil)
	require.NoError(t, err)
	for op, err := range everyCall(t.Context(), tbl) {
		require.ErrorContains(t, err, "table nowhere", op)
		require.ErrorContains(t, err, ministack.Endpoint(t), op)
		require.ErrorContains(t, err, "deploy the stack", op)
		require.NotErrorIs(t, err, table.ErrCondition, op)
	}
}

func TestErrorsThatWillNotPassSayWhatToDoAtOnce(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ code, says string }{
		{"AccessDeniedException", "a permission on the table is missing: allow the role {actions}"},
		{"ExpiredTokenException", "log in again"},
		{"UnrecognizedClientException", "credentials are not accepted"},
		{"InvalidSignatureException", "the clock of this machine"},
		{"ValidationException", "a fault of the test"},
	} {
		t.Run(tt.code, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, func(string, int) faulty.Fault { return faulty.Fault{Status: 400, Code: tt.code} }, dynamo.Options{})
			for op, err := range everyCall(t.Context(), r.faulty) {
				actions := "dynamodb:" + op
				if op == "TransactWriteItems" { // which no policy knows
					actions = "dynamodb:PutItem, dynamodb:DeleteItem and dynamodb:ConditionCheckItem"
				}
				require.ErrorContains(t, err, strings.ReplaceAll(tt.says, "{actions}", actions))
				require.ErrorContains(t, err, r.name)
				require.Equal(t, 1, r.calls.of(op), op)
			}
		})
	}
}

func TestMissingCredentialsSayWhatToDoAtOnce(t *testing.T) {
	t.Parallel()
	client := dynamodb.New(dynamodb.Options{
		Region: "eu-west-1",
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{}, errors.New("no provider in the chain")
		}),
	})
	tbl, err := dynamo.Open(client, "any", nil)
	require.NoError(t, err)
	for op, err := range everyCall(t.Context(), tbl) {
		require.ErrorContains(t, err, "table any (eu-west-1)", op)
		require.ErrorContains(t, err, "no AWS credentials: log in, or set AWS_PROFILE", op)
		require.ErrorContains(t, err, "no provider in the chain", op)
	}
}

func TestOpenRefusesWhatCannotWork(t *testing.T) {
	t.Parallel()
	_, err := dynamo.Open(dynamodb.New(dynamodb.Options{}), "any", nil)
	require.ErrorContains(t, err, "set AWS_REGION")
	_, err = dynamo.Open(ministack.Client("http://127.0.0.1:1"), "", nil)
	require.ErrorContains(t, err, "no table name")
}

func TestRetriesEndAfterTheTimeForThem(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		fault   faulty.Fault
		unknown bool
	}{
		{"throttled", faulty.Throttled, false},
		{"server errors", faulty.ServerError, true},
		{"lost", faulty.LostRequest, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, func(string, int) faulty.Fault { return tt.fault }, dynamo.Options{GiveUpAfter: 200 * time.Millisecond})
			for op, err := range everyCall(t.Context(), r.faulty) {
				require.ErrorContains(t, err, "gave up after", op)
				require.NotErrorIs(t, err, table.ErrCondition, op)
				require.Greater(t, r.calls.of(op), 1, op)
				writes := op != "GetItem" && op != "BatchGetItem" && op != "Query"
				require.Equal(t, tt.unknown && writes, strings.Contains(err.Error(), "the outcome is unknown"), "%s: %v", op, err)
			}
		})
	}
}

func TestRetriesEndWithTheContext(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(string, int) faulty.Fault { return faulty.ServerError }, dynamo.Options{})
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	for op, err := range everyCall(ctx, r.faulty) {
		require.ErrorIs(t, err, context.DeadlineExceeded, op)
	}
}

func TestAnUnreachableEndpointIsNamed(t *testing.T) {
	t.Parallel()
	tbl, err := dynamo.Open(ministack.Client("http://127.0.0.1:1"), "any", &dynamo.Options{GiveUpAfter: 100 * time.Millisecond})
	require.NoError(t, err)
	for op, err := range everyCall(t.Context(), tbl) {
		require.ErrorContains(t, err, "http://127.0.0.1:1", op)
		require.ErrorContains(t, err, "connection refused", op)
	}
}

func TestAnItemOfAnotherProgramIsNamed(t *testing.T) {
	t.Parallel()
	client := ministack.Client(ministack.Endpoint(t))
	r := newRig(t, first("", faulty.Fault{}), dynamo.Options{})
	_, err := client.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &r.name, Item: map[string]types.AttributeValue{
		"pk": &types.AttributeValueMemberS{Value: "p"}, "sk": &types.AttributeValueMemberS{Value: "a"},
	}})
	require.NoError(t, err)
	_, err = r.clean.Get(t.Context(), key)
	require.ErrorContains(t, err, `item "p" "a" was not written by this program`)
}

func TestCreateTableMakesWhatIsNeededAndKeepsWhatIsThere(t *testing.T) {
	t.Parallel()
	client := ministack.Client(ministack.Endpoint(t))
	r := newRig(t, first("", faulty.Fault{}), dynamo.Options{})
	_, err := r.clean.Put(t.Context(), table.Op{Key: key, Body: []byte("kept")})
	require.NoError(t, err)
	require.NoError(t, dynamo.CreateTable(t.Context(), client, r.name))
	got, err := r.clean.Get(t.Context(), key)
	require.NoError(t, err)
	require.Equal(t, "kept", string(got[0].Body))

	out, err := client.DescribeTable(t.Context(), &dynamodb.DescribeTableInput{TableName: &r.name})
	require.NoError(t, err)
	require.Equal(t, types.BillingModePayPerRequest, out.Table.BillingModeSummary.BillingMode)
	require.Equal(t, types.StreamViewTypeNewImage, out.Table.StreamSpecification.StreamViewType)
	ttl, err := client.DescribeTimeToLive(t.Context(), &dynamodb.DescribeTimeToLiveInput{TableName: &r.name})
	require.NoError(t, err)
	require.Equal(t, types.TimeToLiveStatusEnabled, ttl.TimeToLiveDescription.TimeToLiveStatus)
	require.Equal(t, "x", *ttl.TimeToLiveDescription.AttributeName)
}

func TestNoOtherServiceIsLinked(t *testing.T) {
	t.Parallel()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", ".").Output()
	require.NoError(t, err)
	const services = "github.com/aws/aws-sdk-go-v2/service/"
	for pkg := range strings.Lines(string(out)) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(pkg), services); ok {
			require.True(t, strings.HasPrefix(name, "dynamodb") || strings.HasPrefix(name, "internal/"), "links %s", name)
		}
	}
	require.Contains(t, string(out), services+"dynamodb")
}
