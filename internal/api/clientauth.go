package api

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"

	"github.com/lambae/lambae/internal/session"
)

// bearer returns the key of the Authorization header. The scheme is read in any
// case. ok is false when there is no header; a header of another form gives an
// empty key, which opens nothing.
func bearer(r *http.Request) (key string, ok bool) {
	h := strings.TrimSpace(r.Header.Get("Authorization"))
	if h == "" {
		return "", false
	}
	scheme, rest, _ := strings.Cut(h, " ")
	if !strings.EqualFold(scheme, "bearer") {
		return "", true
	}
	return strings.TrimSpace(rest), true
}

// client authenticates a client key and reads its profile. gone is set when the
// profile was deleted; the key is still good for an audit row then. On failure
// the answer has been written.
func (c *Client) client(w http.ResponseWriter, r *http.Request) (key session.ClientKey, p session.Profile, gone, ok bool) {
	secret, given := bearer(r)
	if !given {
		writeProblem(w, unauthorized("missing Authorization header"))
		return key, p, false, false
	}
	key, p, err := c.Directory.ClientKeyAndProfile(r.Context(), secret)
	switch {
	case errors.Is(err, session.ErrProfileUnavailable):
		return key, p, true, true
	case errors.Is(err, session.ErrNotFound), errors.Is(err, session.ErrKeyRevoked):
		writeProblem(w, unauthorized("invalid client key"))
		return key, p, false, false
	case err != nil:
		fail(w, r, c.Logger, err)
		return key, p, false, false
	}
	return key, p, false, true
}

// touch notes the use of a client key, after the answer.
func (c *Client) touch(ctx context.Context, key string) {
	if err := c.Directory.Touch(context.WithoutCancel(ctx), key); err != nil {
		c.Logger.Warn("last_used_at not written", "key", key, "error", err)
	}
}

// caller authenticates a session key for the session of the path. On failure
// the answer has been written; else release must be called.
func (c *Client) caller(w http.ResponseWriter, r *http.Request) (*caller, bool) {
	secret, given := bearer(r)
	if !given {
		writeProblem(w, unauthorized("missing Authorization header"))
		return nil, false
	}
	who, err := c.authenticate(r.Context(), pathSession(r), secret)
	switch {
	case errors.Is(err, errInvalidKey):
		writeProblem(w, unauthorized("invalid session key"))
		return nil, false
	case err != nil:
		fail(w, r, c.Logger, err)
		return nil, false
	}
	who.server = serverURL(r)
	return who, true
}

var errInvalidKey = errors.New("invalid session key")

// authenticate checks a session key against the session's own log, which names
// the client key it was minted for, and the client key against its item, which
// decides a revocation at once. It returns [errInvalidKey] for anything wrong.
func (c *Client) authenticate(ctx context.Context, id, secret string) (*caller, error) {
	if !session.IsID(session.SessionPrefix, id) || !session.IsSecret(session.SessionSecretPrefix, secret) {
		return nil, errInvalidKey
	}
	hash := session.HashSecret(secret)
	if log, release, ok := c.Store.Cached(id); ok {
		// Whose key it is and of which profile never changes, so on a warm process
		// everything is read at once: one round trip.
		if who := newCaller(log, release, hash); who.key != "" {
			return c.admit(ctx, who, log.Refresh)
		}
		release()
	}
	log, release, err := c.Store.Log(ctx, id)
	if errors.Is(err, session.ErrNoSession) {
		return nil, errInvalidKey
	}
	if err != nil {
		return nil, err
	}
	return c.admit(ctx, newCaller(log, release, hash), nil)
}

func newCaller(log *session.Log, release func(), hash string) *caller {
	who := &caller{log: log, release: sync.OnceFunc(release)}
	log.View(func(s *session.State) { who.key, who.profileID = s.KeyOf(hash), s.ProfileID })
	return who
}

// admit reads the caller's client key and the session's profile, with refresh
// at the same time when it is not nil.
func (c *Client) admit(ctx context.Context, who *caller, refresh func(context.Context) error) (_ *caller, err error) {
	defer func() {
		if err != nil {
			who.release()
		}
	}()
	if who.key == "" {
		return nil, errInvalidKey
	}
	refreshed := make(chan error, 1)
	if refresh != nil && !c.Store.Table().Exclusive() {
		go func() { refreshed <- refresh(ctx) }()
	} else {
		refreshed <- nil
	}
	_, who.profile, err = c.Directory.KeyWithProfile(ctx, who.key, who.profileID)
	if behind := <-refreshed; behind != nil {
		return nil, behind
	}
	switch {
	case errors.Is(err, session.ErrNotFound), errors.Is(err, session.ErrKeyRevoked):
		return nil, errInvalidKey
	case errors.Is(err, session.ErrProfileUnavailable):
		who.gone = true
	case err != nil:
		return nil, err
	}
	return who, nil
}
