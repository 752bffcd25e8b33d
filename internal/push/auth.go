package push

import (
	"context"
	"errors"

	"github.com/lambae/lambae/internal/session"
)

// ErrInvalidKey refuses a session key, never saying what is wrong with it.
var ErrInvalidKey = errors.New("invalid session key")

// Authenticate returns the client key id of a session key of that session, or
// [ErrInvalidKey] (protocol, "Ids, keys, times").
func Authenticate(ctx context.Context, store *session.Store, directory *session.Directory, sessionID, secret string) (key string, err error) {
	if !session.IsID(session.SessionPrefix, sessionID) || !session.IsSecret(session.SessionSecretPrefix, secret) {
		return "", ErrInvalidKey
	}
	log, release, err := store.Log(ctx, sessionID)
	if errors.Is(err, session.ErrNoSession) {
		return "", ErrInvalidKey
	}
	if err != nil {
		return "", err
	}
	defer release()
	log.View(func(s *session.State) { key = s.KeyOf(session.HashSecret(secret)) })
	if key == "" {
		return "", ErrInvalidKey
	}
	return key, Authorize(ctx, directory, log, key)
}

// Authorize looks whether a client key that authenticated before still may act
// on the session: its own item decides a revocation at once, before any session
// is told. It returns [ErrInvalidKey] if not.
func Authorize(ctx context.Context, directory *session.Directory, log *session.Log, key string) error {
	var profile string
	log.View(func(s *session.State) { profile = s.ProfileID })
	_, _, err := directory.KeyWithProfile(ctx, key, profile)
	switch {
	case errors.Is(err, session.ErrNotFound), errors.Is(err, session.ErrKeyRevoked):
		return ErrInvalidKey
	case errors.Is(err, session.ErrProfileUnavailable):
		return nil // watching needs no profile
	}
	return err
}
