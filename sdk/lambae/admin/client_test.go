package admin_test

import (
	"context"
	"encoding/json"
	"iter"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lambae/lambae/sdk/lambae"
	"github.com/lambae/lambae/sdk/lambae/admin"
	"github.com/lambae/lambae/sdk/lambae/lambaetest"
)

func start(t *testing.T, options lambaetest.Options) (*lambaetest.Server, *admin.Client) {
	server := lambaetest.New(options)
	t.Cleanup(server.Close)
	client, err := admin.New(server.AdminURL, server.AdminKey, &admin.Options{Backoff: func(int) time.Duration { return 0 }})
	require.NoError(t, err)
	return server, client
}

func collect[T any](t *testing.T, items iter.Seq2[T, error]) []T {
	var all []T
	for item, err := range items {
		require.NoError(t, err)
		all = append(all, item)
	}
	return all
}

func kind(t *testing.T, err error) string {
	var problem *lambae.APIError
	require.ErrorAs(t, err, &problem)
	return problem.Type
}

func TestProfilesLive(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	server, client := start(t, lambaetest.Options{})
	created, err := client.CreateProfile(ctx, admin.ProfileSpec{Name: "p1", PrimaryProvider: "mock", AllowedTools: []string{"a"}, SystemPrompt: "Be brief.", EventTTLDays: 30})
	require.NoError(t, err)
	require.Equal(t, "p1", created.Name)

	profile, err := client.Profile(ctx, created.ID)
	require.NoError(t, err)
	require.Equal(t, []string{"a"}, profile.AllowedTools)
	require.Equal(t, []string{}, profile.MCPServers)
	require.Equal(t, 30, profile.EventTTLDays)
	require.Equal(t, created.CreatedAt, profile.CreatedAt)

	replaced, err := client.ReplaceProfile(ctx, created.ID, admin.ProfileSpec{Name: "p2", PrimaryProvider: "mock"})
	require.NoError(t, err)
	require.Empty(t, replaced.AllowedTools)
	require.Empty(t, replaced.SystemPrompt)
	require.Len(t, collect(t, client.Profiles(ctx)), 2)

	_, err = client.CreateProfile(ctx, admin.ProfileSpec{Name: "p2", PrimaryProvider: "mock"})
	require.Equal(t, lambae.TypeDuplicateName, kind(t, err))
	_, err = client.CreateProfile(ctx, admin.ProfileSpec{Name: " ", PrimaryProvider: "mock"})
	require.ErrorContains(t, err, "create profile: 400 bad_request: name must not be empty")
	require.Equal(t, lambae.TypeProfileInUse, kind(t, client.DeleteProfile(ctx, server.ProfileID)))
	require.NoError(t, client.DeleteProfile(ctx, created.ID))
	require.Equal(t, lambae.TypeNotFound, kind(t, client.DeleteProfile(ctx, created.ID)))
	_, err = client.Profile(ctx, created.ID)
	require.ErrorContains(t, err, "read profile "+created.ID)
}

func TestWhatTheServerSentIsKept(t *testing.T) {
	t.Parallel()
	const key = `{"id":"key_1","name":"k","created_at":"2026-07-06T18:26:10.010Z","last_used_at":null,"later":1}`
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			_, _ = w.Write([]byte(key + "\n"))
			return
		}
		_, _ = w.Write([]byte(`{"items":[` + key + `],"next_cursor":null}`))
	}))
	defer server.Close()
	client, err := admin.New(server.URL, "bae_admin_x", nil)
	require.NoError(t, err)
	created, err := client.CreateKey(t.Context(), "k", "pro_1")
	require.NoError(t, err)
	require.Equal(t, key, string(created.Raw()))
	require.Equal(t, key, string(collect(t, client.Keys(t.Context()))[0].Raw()))
	require.Nil(t, admin.Key{}.Raw())
}

func TestKeysLive(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	server, client := start(t, lambaetest.Options{})
	created, err := client.CreateKey(ctx, "k", server.ProfileID)
	require.NoError(t, err)
	keys := collect(t, client.Keys(ctx))
	require.Len(t, keys, 2)
	require.Equal(t, created.ID, keys[1].ID)
	require.Equal(t, "k", keys[1].Name)
	require.Equal(t, created.Key[:8], keys[1].Prefix)
	require.Equal(t, server.ProfileID, keys[1].ProfileID)
	require.Equal(t, created.CreatedAt, keys[1].CreatedAt)
	require.Nil(t, keys[1].LastUsedAt)

	user, err := lambae.New(server.URL, created.Key, nil)
	require.NoError(t, err)
	session, err := user.Open(ctx, &lambae.OpenRequest{ClientVersion: "kit/1"})
	require.NoError(t, err)
	require.NoError(t, client.RevokeKey(ctx, created.ID))
	_, err = session.Participants(ctx)
	require.Equal(t, lambae.TypeUnauthorized, kind(t, err))

	sessions := collect(t, client.Sessions(ctx, admin.StateClosed))
	require.Len(t, sessions, 1)
	require.Equal(t, "kit/1", *sessions[0].ClientVersion)
	require.NotNil(t, sessions[0].ClosedAt)
	require.Empty(t, collect(t, client.Sessions(ctx, admin.StateOpen)))
	events := collect(t, client.SessionEvents(ctx, session.ID))
	require.Equal(t, lambae.EventSessionClose, events[len(events)-1].Type)

	require.Equal(t, lambae.TypeNotFound, kind(t, client.RevokeKey(ctx, created.ID)))
	_, err = client.CreateKey(ctx, "k", "pro_none")
	require.Equal(t, lambae.TypeProfileUnavailable, kind(t, err))
	_, err = client.SessionsPage(ctx, "nope", "", 0)
	require.Equal(t, lambae.TypeBadRequest, kind(t, err))
}

func TestListsComePageByPage(t *testing.T) {
	t.Parallel()
	server, client := start(t, lambaetest.Options{})
	for range 250 {
		server.NewClientKey("k")
	}
	require.Len(t, collect(t, client.Keys(t.Context())), 251)
	page, err := client.KeysPage(t.Context(), "", 7)
	require.NoError(t, err)
	require.Len(t, page.Items, 7)
	require.NotEmpty(t, page.NextCursor)
}

func TestRegistriesAreRead(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	server, client := start(t, lambaetest.Options{Images: []string{"img"}})
	providers, err := client.Providers(ctx)
	require.NoError(t, err)
	require.Equal(t, []admin.Provider{{Name: "mock", Provider: "echo", Model: "mock", BaseURL: "http://model.invalid"}}, providers)
	servers, err := client.MCPServers(ctx)
	require.NoError(t, err)
	require.Equal(t, []admin.MCPServer{{Name: "test", Transport: "stdio"}}, servers)
	status, err := client.SandboxStatus(ctx)
	require.NoError(t, err)
	require.Equal(t, []admin.SandboxStatus{{ProfileID: server.ProfileID, Images: []lambae.SandboxImage{{Name: "img", Status: "available"}}}}, status)
	config, err := client.Config(ctx)
	require.NoError(t, err)
	require.True(t, json.Valid(config))
	require.Contains(t, string(config), `"auth_token":"••••••••"`)
}

func TestRefusalsAndLossesAreTold(t *testing.T) {
	t.Parallel()
	server, _ := start(t, lambaetest.Options{})
	stranger, err := admin.New(server.AdminURL, server.ClientKey, nil)
	require.NoError(t, err)
	_, err = stranger.Config(t.Context())
	require.ErrorContains(t, err, "read configuration: 401 unauthorized: invalid admin key")
	_, err = admin.New("127.0.0.1:8081", "", nil)
	require.ErrorContains(t, err, "admin: server address")
}

func TestALostAnswerToDeletingIsNoFailure(t *testing.T) {
	t.Parallel()
	for name, remove := range map[string]func(context.Context, *admin.Client) error{
		"a key":     func(ctx context.Context, c *admin.Client) error { return c.RevokeKey(ctx, "key_1") },
		"a profile": func(ctx context.Context, c *admin.Client) error { return c.DeleteProfile(ctx, "pro_1") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var tries atomic.Int32
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				if tries.Add(1) == 1 {
					panic(http.ErrAbortHandler)
				}
				w.WriteHeader(http.StatusNotFound)
				_, _ = w.Write([]byte(`{"type":"not_found","title":"Not Found","status":404,"detail":"gone"}`))
			}))
			defer server.Close()
			client, err := admin.New(server.URL, "k", &admin.Options{Backoff: func(int) time.Duration { return 0 }})
			require.NoError(t, err)
			require.NoError(t, remove(t.Context(), client))
			require.EqualValues(t, 2, tries.Load())
		})
	}
}
