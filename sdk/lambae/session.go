package lambae

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"sync"

	"github.com/lambae/lambae/sdk/lambae/internal/rest"
)

// Session is one session as one client sees it. It is safe for concurrent use.
type Session struct {
	ID      string
	Key     string   // bae_ses_…; secret, and shown by the server only once
	Profile *Profile // nil for a session made by [Client.Session]

	client *Client

	mu         sync.Mutex
	registered bool            // this client is known to be a driver
	tools      map[string]bool // names this client declared last
}

// Session comes back to a session by its own key, which [Client.Open] or
// [Client.Join] gave. Nothing is sent.
func (c *Client) Session(id, key string) (*Session, error) {
	if _, err := sessionPath(id, ""); err != nil {
		return nil, err
	}
	if key == "" {
		return nil, errNoSessionKey
	}
	return &Session{ID: id, Key: key, client: c}, nil
}

// path of a resource of the session; its id was checked when it was made.
func (s *Session) path(resource string) string { return "/api/v1/sessions/" + s.ID + resource }

// Participants lists the key ids of the registered drivers, sorted.
func (s *Session) Participants(ctx context.Context) ([]string, error) {
	var answer struct {
		Drivers []string `json:"drivers"`
	}
	if err := s.client.getJSON(ctx, s.Key, s.path("/participants"), nil, &answer); err != nil {
		return nil, fmt.Errorf("list participants of %s: %w", s.ID, err)
	}
	return answer.Drivers, nil
}

// Close ends the session for everybody. On a session that has already ended
// the error is an [*APIError] of [TypeSessionClosed].
func (s *Session) Close(ctx context.Context) error {
	unsure, err := s.client.doJSON(ctx, rest.Request{
		Method: http.MethodDelete, Path: s.path(""), Key: s.Key, Repeatable: true,
	}, nil)
	if problem, ok := errors.AsType[*APIError](err); ok && unsure && problem.Type == TypeSessionClosed {
		return nil // an earlier try of this very call got through
	}
	if err != nil {
		return fmt.Errorf("close %s: %w", s.ID, err)
	}
	return nil
}

// Page is one page of a list. NextCursor is empty on the last one.
type Page[T any] struct {
	Items      []T    `json:"items"`
	NextCursor string `json:"next_cursor"`
}

// EventsPage reads one page of the session's events, oldest first: from the
// start for an empty cursor, the server's default number for a limit of 0 (the
// server cuts it at 200).
func (s *Session) EventsPage(ctx context.Context, cursor string, limit int) (*Page[Event], error) {
	page := new(Page[Event])
	if err := s.client.getJSON(ctx, s.Key, s.path("/events"), PageQuery(cursor, limit), page); err != nil {
		return nil, fmt.Errorf("read events of %s: %w", s.ID, err)
	}
	return page, nil
}

// Events yields every event so far, oldest first, page after page. It works on
// ended sessions too. An error is yielded last.
func (s *Session) Events(ctx context.Context) iter.Seq2[Event, error] {
	return Pages(func(cursor string) (*Page[Event], error) {
		return s.EventsPage(ctx, cursor, maxPage)
	})
}

// maxPage is the largest page a server gives.
const maxPage = 200

// PageQuery is the query of a page: nothing for the server's defaults.
func PageQuery(cursor string, limit int) url.Values {
	query := url.Values{}
	if cursor != "" {
		query.Set("cursor", cursor)
	}
	if limit != 0 {
		query.Set("limit", strconv.Itoa(limit))
	}
	return query
}

// Pages yields the items of all pages that read gives, from the empty cursor
// on. An error is yielded last.
func Pages[T any](read func(cursor string) (*Page[T], error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for cursor := ""; ; {
			page, err := read(cursor)
			if err != nil {
				var none T
				yield(none, err)
				return
			}
			for _, item := range page.Items {
				if !yield(item, nil) {
					return
				}
			}
			if page.NextCursor == "" {
				return
			}
			if page.NextCursor == cursor {
				var none T
				yield(none, errors.New("the server's next page is the same page again"))
				return
			}
			cursor = page.NextCursor
		}
	}
}

// setTools remembers what the client declared, for servers that do not say who
// runs a tool.
func (s *Session) setTools(tools []Tool) {
	names := make(map[string]bool, len(tools))
	for _, tool := range tools {
		names[tool.Name] = true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tools = names
}

// ours reports whether call is this client's to run (seed, "The harness
// tool-call loop").
func (s *Session) ours(call ToolUse) bool {
	if call.Dispatch != "" {
		return call.Dispatch == DispatchClient
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tools[call.Name]
}
