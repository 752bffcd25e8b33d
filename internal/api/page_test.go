package api

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPageQuery(t *testing.T) {
	t.Parallel()
	for query, want := range map[string]struct {
		cursor string
		limit  int // 0 is refused
	}{
		"":                                {"", 50},
		"?limit=1":                        {"", 1},
		"?limit=200&cursor=":              {"", 200},
		"?limit=201":                      {"", 200},
		"?limit=500&cursor=abc":           {"abc", 200},
		"?limit=99999999999999999999999":  {"", 200},
		"?limit=007":                      {"", 7},
		"?cursor=a%20b":                   {"a b", 50},
		"?limit=0":                        {},
		"?limit=-1":                       {},
		"?limit=-99999999999999999999999": {},
		"?limit=":                         {},
		"?limit=x":                        {},
		"?limit=1.5":                      {},
		"?limit=1e2":                      {},
		"?limit=%2010":                    {},
	} {
		cursor, limit, err := pageQuery(httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/"+query, nil))
		if want.limit == 0 {
			require.EqualError(t, err, "bad_request: limit must be a positive integer", query)
			continue
		}
		require.NoError(t, err, query)
		require.Equal(t, want.cursor, cursor, query)
		require.Equal(t, want.limit, limit, query)
	}
}

func TestBrokenQueryIsRefusedNotIgnored(t *testing.T) {
	t.Parallel()
	for _, query := range []string{"limit=%zz", "limit=5;cursor=x", "cursor=%"} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		r.URL.RawQuery = query
		_, _, err := pageQuery(r)
		require.ErrorContains(t, err, "bad_request: the query cannot be read", query)
	}
}

func TestPageHasNoNullListAndANullCursorAtTheEnd(t *testing.T) {
	t.Parallel()
	body, err := json.Marshal(newPage[int](nil, nil))
	require.NoError(t, err)
	require.JSONEq(t, `{"items":[],"next_cursor":null}`, string(body))
	next := "n"
	body, err = json.Marshal(newPage([]int{1}, &next))
	require.NoError(t, err)
	require.JSONEq(t, `{"items":[1],"next_cursor":"n"}`, string(body))
}
