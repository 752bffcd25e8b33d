package awssecrets

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/stretchr/testify/require"
)

// store plays the two services' JSON protocols.
func store(t *testing.T) aws.Config {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var in struct {
			SecretId, Name string
			WithDecryption bool
		}
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/x-amz-json-1.1")
		switch {
		case r.Header.Get("X-Amz-Target") == "secretsmanager.GetSecretValue" && in.SecretId == "text":
			fmt.Fprint(w, `{"Name":"text","SecretString":"open sesame"}`)
		case r.Header.Get("X-Amz-Target") == "secretsmanager.GetSecretValue" && in.SecretId == "binary":
			fmt.Fprint(w, `{"Name":"binary","SecretBinary":"b3Blbg=="}`)
		case r.Header.Get("X-Amz-Target") == "AmazonSSM.GetParameter" && in.Name == "/p" && in.WithDecryption:
			fmt.Fprint(w, `{"Parameter":{"Name":"/p","Value":"decrypted"}}`)
		default:
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprint(w, `{"__type":"ResourceNotFoundException","message":"not there"}`)
		}
	}))
	t.Cleanup(srv.Close)
	return aws.Config{
		Region:       "eu-west-1",
		BaseEndpoint: aws.String(srv.URL),
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "id", SecretAccessKey: "key"}, nil
		}),
	}
}

func TestSecretsAreReadFromBothServices(t *testing.T) {
	t.Parallel()
	cfg := store(t)
	s := New(func(context.Context) (aws.Config, error) { return cfg, nil })

	got, err := s.SecretsManager(t.Context(), "text")
	require.NoError(t, err)
	require.Equal(t, "open sesame", got)
	got, err = s.SecretsManager(t.Context(), "binary")
	require.NoError(t, err)
	require.Equal(t, "open", got)
	got, err = s.SSM(t.Context(), "/p")
	require.NoError(t, err)
	require.Equal(t, "decrypted", got)

	_, err = s.SecretsManager(t.Context(), "gone")
	require.ErrorContains(t, err, "read from Secrets Manager")
	_, err = s.SSM(t.Context(), "/gone")
	require.ErrorContains(t, err, "read from Parameter Store")
}

func TestConfigurationIsLoadedOnFirstUseAndAgainAfterAFailure(t *testing.T) {
	t.Parallel()
	cfg := store(t)
	var loads atomic.Int32
	s := New(func(context.Context) (aws.Config, error) {
		if loads.Add(1) == 1 {
			return aws.Config{}, errors.New("no metadata service")
		}
		return cfg, nil
	})
	require.Zero(t, loads.Load())
	_, err := s.SSM(t.Context(), "/p")
	require.ErrorContains(t, err, "no metadata service")
	for range 3 {
		_, err = s.SSM(t.Context(), "/p")
		require.NoError(t, err)
	}
	require.EqualValues(t, 2, loads.Load())
}
