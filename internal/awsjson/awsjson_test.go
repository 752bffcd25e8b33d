package awsjson_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/stretchr/testify/require"

	"github.com/lambae/lambae/internal/awsjson"
)

// service answers each attempt with the next of the answers, the last one again.
func service(t *testing.T, answers ...func(http.ResponseWriter, *http.Request)) (client *awsjson.Client, attempts *atomic.Int32) {
	t.Helper()
	attempts = &atomic.Int32{}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := int(attempts.Add(1))
		answers[min(n, len(answers))-1](w, r)
	}))
	t.Cleanup(srv.Close)
	return awsjson.New(func(context.Context) (aws.Config, error) { return config(srv.URL), nil }), attempts
}

func config(url string) aws.Config {
	return aws.Config{
		Region: "eu-west-1", BaseEndpoint: &url,
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "id", SecretAccessKey: "key", SessionToken: "token"}, nil
		}),
	}
}

func says(status int, body string) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

func TestACallIsASignedPost(t *testing.T) {
	t.Parallel()
	client, _ := service(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		switch {
		case r.Method != http.MethodPost, string(body) != `{"in":1}`,
			r.Header.Get("X-Amz-Target") != "Things.Make", r.Header.Get("X-Amz-Security-Token") != "token",
			!strings.Contains(r.Header.Get("Authorization"), "/eu-west-1/things/aws4_request"):
			says(http.StatusBadRequest, `{}`)(w, r)
		default:
			says(http.StatusOK, `{"out":2}`)(w, r)
		}
	})
	var out struct{ Out int }
	require.NoError(t, client.Call(t.Context(), "things", "Things.Make", map[string]int{"in": 1}, &out))
	require.Equal(t, 2, out.Out)
}

func TestWhatPassesIsAskedAgain(t *testing.T) {
	t.Parallel()
	for name, refuse := range map[string]func(http.ResponseWriter, *http.Request){
		"throttled":      says(http.StatusBadRequest, `{"__type":"com.amazon#ThrottlingException","message":"Rate exceeded"}`),
		"internal error": says(http.StatusInternalServerError, `<html>`),
		"cut off":        func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client, attempts := service(t, refuse, says(http.StatusOK, `{}`))
			require.NoError(t, client.Call(t.Context(), "things", "Things.Make", nil, &struct{}{}))
			require.EqualValues(t, 2, attempts.Load())
		})
	}
}

func TestARefusalIsTyped(t *testing.T) {
	t.Parallel()
	client, attempts := service(t, says(http.StatusBadRequest, `{"__type":"com.amazon.things#NoSuchThing","Message":"there is none"}`))
	err := client.Call(t.Context(), "things", "Things.Make", nil, &struct{}{})
	require.EqualError(t, err, "HTTP 400 NoSuchThing: there is none")
	require.True(t, awsjson.Is(err, "NoSuchThing"))
	require.False(t, awsjson.Is(err, "Other"))
	require.False(t, awsjson.Is(errors.New("NoSuchThing"), "NoSuchThing"))
	require.EqualValues(t, 1, attempts.Load())
}

func TestAServiceThatStaysBusyIsGivenUp(t *testing.T) {
	t.Parallel()
	client, attempts := service(t, says(http.StatusTooManyRequests, `{"__type":"TooManyRequestsException","message":"busy"}`))
	err := client.Call(t.Context(), "things", "Things.Make", nil, &struct{}{})
	require.True(t, awsjson.Is(err, "TooManyRequestsException"))
	require.EqualValues(t, 4, attempts.Load())
}

func TestNobodyWaitsWhenTheCallerIsGone(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("the caller went away")
	client, attempts := service(t, func(w http.ResponseWriter, r *http.Request) {
		cancel(gone)
		says(http.StatusInternalServerError, ``)(w, r)
	})
	require.Error(t, client.Call(ctx, "things", "Things.Make", nil, &struct{}{}))
	require.EqualValues(t, 1, attempts.Load())
}

func TestCredentialsThatAreMissingAreNamed(t *testing.T) {
	t.Parallel()
	client := awsjson.New(func(context.Context) (aws.Config, error) {
		cfg := config("http://127.0.0.1:1")
		cfg.Credentials = aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{}, errors.New("no role")
		})
		return cfg, nil
	})
	require.EqualError(t, client.Call(t.Context(), "things", "Things.Make", nil, nil), "AWS credentials: no role")
}
