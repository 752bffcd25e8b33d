package e2e

import (
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/stretchr/testify/require"

	"github.com/lambae/lambae/internal/awsstack"
)

// After `cdk destroy`; `make local-test` runs it last.
func TestDestroyLeavesNothing(t *testing.T) {
	cfg, stage := awsConfig(t)
	_, err := awsstack.Find(t.Context(), cfg, stage)
	require.ErrorIs(t, err, awsstack.ErrNotDeployed)
	tables, err := dynamodb.NewFromConfig(cfg).ListTables(t.Context(), &dynamodb.ListTablesInput{})
	require.NoError(t, err)
	for _, name := range tables.TableNames {
		require.False(t, strings.HasPrefix(name, "lambae-"+stage+"-"), "table %s is left", name)
	}
	require.Eventually(t, func() bool { return len(clientFunctions(t)) == 0 }, patience, 100*time.Millisecond, "processes of functions are left")
}
