package awsstack_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/stretchr/testify/require"

	"github.com/lambae/lambae/internal/awsstack"
)

// cloudFormation answers DescribeStacks with a status and a body.
func cloudFormation(t *testing.T, status int, body string) aws.Config {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		request, _ := io.ReadAll(r.Body)
		if !strings.Contains(string(request), "Action=DescribeStacks") || !strings.Contains(string(request), "StackName=lambae-dev") {
			t.Errorf("unexpected request %s", request)
		}
		w.Header().Set("Content-Type", "text/xml")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(srv.Close)
	return aws.Config{Region: "eu-west-1", BaseEndpoint: &srv.URL, Credentials: credentials.NewStaticCredentialsProvider("AKID", "secret", ""),
		Retryer: func() aws.Retryer { return aws.NopRetryer{} }}
}

func stack(status string, outputs ...string) string {
	var b strings.Builder
	for i := 0; i < len(outputs); i += 2 {
		fmt.Fprintf(&b, `<member><OutputKey>%s</OutputKey><OutputValue>%s</OutputValue></member>`, outputs[i], outputs[i+1])
	}
	return `<DescribeStacksResponse xmlns="http://cloudformation.amazonaws.com/doc/2010-05-15/"><DescribeStacksResult><Stacks><member>` +
		`<StackName>lambae-dev</StackName><StackStatus>` + status + `</StackStatus><CreationTime>2026-07-06T18:26:10Z</CreationTime>` +
		`<Outputs>` + b.String() + `</Outputs></member></Stacks></DescribeStacksResult></DescribeStacksResponse>`
}

func failure(code, message string) string {
	return `<ErrorResponse xmlns="http://cloudformation.amazonaws.com/doc/2010-05-15/"><Error><Type>Sender</Type><Code>` + code +
		`</Code><Message>` + message + `</Message></Error><RequestId>r</RequestId></ErrorResponse>`
}

func TestAStageIsFoundByItsOutputs(t *testing.T) {
	t.Parallel()
	cfg := cloudFormation(t, http.StatusOK, stack("UPDATE_COMPLETE",
		"ClientUrl", "https://client.example.com/", "AdminUrl", "https://abc.lambda-url.eu-west-1.on.aws/",
		"WebSocketUrl", "wss://ws.example.com/v1", "TableName", "sessions"))
	s, err := awsstack.Find(t.Context(), cfg, "dev")
	require.NoError(t, err)
	require.Equal(t, &awsstack.Stack{
		Stage: "dev", ClientURL: "https://client.example.com", AdminURL: *cfg.BaseEndpoint + "/_aws/lambda-url/abc",
		WebSocketURL: "wss://ws.example.com/v1", Table: "sessions",
	}, s, "a Function URL of AWS is where the emulator serves it")
}

func TestWhatIsMissingIsSaid(t *testing.T) {
	t.Parallel()
	for claim, tc := range map[string]struct {
		status     int
		body, says string
	}{
		"no such stack":   {400, failure("ValidationError", "Stack with id lambae-dev does not exist"), "make deploy STAGE=dev"},
		"a deleted stack": {200, stack("DELETE_COMPLETE"), "make deploy STAGE=dev"},
		"no permission":   {403, failure("AccessDenied", "not authorized"), "cloudformation:DescribeStacks"},
		"no outputs":      {200, stack("ROLLBACK_COMPLETE"), "ROLLBACK_COMPLETE"},
		"another failure": {400, failure("Throttling", "Rate exceeded"), "Rate exceeded"},
	} {
		t.Run(claim, func(t *testing.T) {
			t.Parallel()
			_, err := awsstack.Find(t.Context(), cloudFormation(t, tc.status, tc.body), "dev")
			require.ErrorContains(t, err, tc.says)
		})
	}
	_, err := awsstack.Find(t.Context(), aws.Config{}, "dev")
	require.ErrorContains(t, err, "AWS_REGION")
	_, err = awsstack.Find(t.Context(), aws.Config{Region: "eu-west-1"}, "Dev!")
	require.ErrorContains(t, err, "name of a stage")
	_, err = awsstack.Find(t.Context(), aws.Config{Region: "eu-west-1", Credentials: aws.CredentialsProviderFunc(
		func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{}, errors.New("no EC2 IMDS role found")
		},
	)}, "dev")
	require.ErrorContains(t, err, "find stage dev in eu-west-1: no AWS credentials: log in, or set AWS_PROFILE")
	require.ErrorContains(t, err, "no EC2 IMDS role found")
}

func TestARequestIsSignedOverItsBody(t *testing.T) {
	t.Parallel()
	var signatures []string
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		signatures = append(signatures, r.Header.Get("Authorization"))
		_, _ = w.Write(body)
	}))
	t.Cleanup(srv.Close)
	cfg := aws.Config{Region: "eu-west-1", Credentials: credentials.NewStaticCredentialsProvider("AKID", "secret", "token")}
	client := &http.Client{Transport: awsstack.NewSigner(cfg, http.DefaultTransport)}
	for _, body := range []string{`{"name":"a"}`, `{"name":"b"}`} {
		resp, err := client.Post(srv.URL, "application/json", bytes.NewReader([]byte(body)))
		require.NoError(t, err)
		echoed, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.Equal(t, body, string(echoed))
	}
	require.Len(t, signatures, 2)
	require.Regexp(t, `^AWS4-HMAC-SHA256 Credential=AKID/\d{8}/eu-west-1/lambda/aws4_request, SignedHeaders=[a-z0-9;-]*host[a-z0-9;-]*, Signature=[0-9a-f]{64}$`, signatures[0])
	require.NotEqual(t, signatures[0], signatures[1])
}

func TestARequestWithoutCredentialsSaysWhatToDo(t *testing.T) {
	t.Parallel()
	req := httptest.NewRequest(http.MethodGet, "https://abc.lambda-url.eu-west-1.on.aws/", nil)
	_, err := awsstack.NewSigner(aws.Config{Region: "eu-west-1"}, http.DefaultTransport).RoundTrip(req)
	require.ErrorContains(t, err, "AWS_PROFILE")
}
