package api

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// Sizes of a page (protocol, "REST details").
const (
	defaultLimit = 50
	maxLimit     = 200
)

// page is the answer of every list. NextCursor is null on the last page.
type page[T any] struct {
	Items      []T     `json:"items"`
	NextCursor *string `json:"next_cursor"`
}

// newPage makes the page of items, which a client may iterate without a check:
// it has no null list.
func newPage[T any](items []T, next *string) page[T] {
	if items == nil {
		items = []T{}
	}
	return page[T]{items, next}
}

// views makes what is shown of each item, never a null list.
func views[T, V any](items []T, view func(T) V) []V {
	out := make([]V, 0, len(items))
	for _, item := range items {
		out = append(out, view(item))
	}
	return out
}

// pageQuery reads ?cursor=&limit=. The cursor is not looked into here. A limit
// above the maximum is cut, not refused.
func pageQuery(r *http.Request) (cursor string, limit int, err error) {
	// Not [url.URL.Query], which drops what it cannot read: a broken limit would
	// count as none.
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return "", 0, badRequest("the query cannot be read: " + err.Error())
	}
	limit, err = parseLimit(query.Get("limit"), query.Has("limit"))
	return query.Get("cursor"), limit, err
}

func parseLimit(s string, given bool) (int, error) {
	if !given {
		return defaultLimit, nil
	}
	n, err := strconv.Atoi(s)
	if err != nil && s != "" && strings.Trim(s, "0123456789") == "" {
		return maxLimit, nil // a number, only too long a one
	}
	if err != nil || n <= 0 {
		return 0, badRequest("limit must be a positive integer")
	}
	return min(n, maxLimit), nil
}
