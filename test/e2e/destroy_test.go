package e2e

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/arn"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/stretchr/testify/require"

	"github.com/lambae/lambae/internal/awsstack"
)

// resources are the ARNs of all that the stage's tag is on. The call is written
// out since emulators do not speak CBOR, which the SDK's client insists on.
func resources(t *testing.T, cfg aws.Config, stage string) []string {
	t.Helper()
	endpoint := "https://tagging." + cfg.Region + ".amazonaws.com"
	if at := os.Getenv("AWS_ENDPOINT_URL"); at != "" {
		endpoint = at
	}
	var found []string
	for token := ""; ; {
		body, err := json.Marshal(map[string]any{
			"TagFilters":      []any{map[string]any{"Key": "lambae:stage", "Values": []string{stage}}},
			"PaginationToken": token,
		})
		require.NoError(t, err)
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, endpoint, bytes.NewReader(body))
		require.NoError(t, err)
		req.Header.Set("Content-Type", "application/x-amz-json-1.1")
		req.Header.Set("X-Amz-Target", "ResourceGroupsTaggingAPI_20170126.GetResources")
		credentials, err := cfg.Credentials.Retrieve(t.Context())
		require.NoError(t, err)
		require.NoError(t, v4.NewSigner().SignHTTP(t.Context(), credentials, req, fmt.Sprintf("%x", sha256.Sum256(body)), "tagging", cfg.Region, time.Now()))
		res, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		answer, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		require.Equal(t, http.StatusOK, res.StatusCode, "%s", answer)
		var page struct {
			PaginationToken        string
			ResourceTagMappingList []struct{ ResourceARN string }
		}
		require.NoError(t, json.Unmarshal(answer, &page))
		for _, r := range page.ResourceTagMappingList {
			found = append(found, r.ResourceARN)
		}
		if token = page.PaginationToken; token == "" {
			return found
		}
	}
}

func TestPartsOfTheStackAreFoundByTheirTag(t *testing.T) {
	t.Parallel()
	cfg, stage := awsConfig(t)
	w := deployed(t)
	kinds := map[string]bool{}
	for _, r := range resources(t, cfg, stage) {
		parsed, err := arn.Parse(r)
		require.NoError(t, err)
		kinds[parsed.Service] = true
		if parsed.Service == "dynamodb" {
			require.Equal(t, "table/"+w.stack.Table, parsed.Resource)
		}
	}
	for _, kind := range []string{"dynamodb", "lambda", "sqs"} {
		require.True(t, kinds[kind], "no tagged resource of %s", kind)
	}
}

// After `cdk destroy`; `make local-test` runs it last.
func TestDestroyLeavesNothing(t *testing.T) {
	cfg, stage := awsConfig(t)
	_, err := awsstack.Find(t.Context(), cfg, stage)
	require.ErrorIs(t, err, awsstack.ErrNotDeployed)
	for _, r := range resources(t, cfg, stage) {
		// ECS keeps what a task definition was, inactive, and the emulator the tags of
		// a table that is gone; the table is looked for below.
		require.Regexp(t, ":dynamodb:|:task-definition/", r)
	}
	tables, err := dynamodb.NewFromConfig(cfg).ListTables(t.Context(), &dynamodb.ListTablesInput{})
	require.NoError(t, err)
	for _, name := range tables.TableNames {
		require.False(t, strings.HasPrefix(name, "lambae-"+stage+"-"), "table %s is left", name)
	}
}
