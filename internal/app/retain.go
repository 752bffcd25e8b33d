package app

import (
	"context"
	"errors"
	"time"

	"github.com/lambae/lambae/internal/session"
)

// Retain deletes events that by now are older than their session's profile says
// (event_ttl_days). One session's trouble does not keep others from theirs.
func (a *App) Retain(ctx context.Context, now time.Time) {
	ttl := map[string]time.Duration{}
	err := pages(func(cursor string) (session.ListPage[session.Profile], error) {
		return a.Directory.ListProfiles(ctx, cursor, 200)
	}, func(p session.Profile) {
		if p.EventTTLDays != nil {
			ttl[p.ID] = time.Duration(*p.EventTTLDays) * 24 * time.Hour
		}
	})
	if err == nil && len(ttl) > 0 {
		err = pages(func(cursor string) (session.ListPage[session.SessionRow], error) {
			return a.Directory.ListSessions(ctx, "", cursor, 200, a.Store.Logged)
		}, func(row session.SessionRow) {
			if age := ttl[row.ProfileID]; age > 0 && now.Sub(row.CreatedAt) > age {
				a.retain(ctx, row.ID, now.Add(-age))
			}
		})
	}
	if err != nil {
		a.parts.Logger.Warn("old events not looked for", "error", err)
	}
}

func (a *App) retain(ctx context.Context, id string, before time.Time) {
	log, release, err := a.Store.Log(ctx, id)
	if err == nil {
		defer release()
		err = log.Retain(ctx, before)
	}
	if err != nil && !errors.Is(err, session.ErrNoSession) {
		a.parts.Logger.Warn("old events not deleted", "session", id, "error", err)
	}
}

// pages calls each for all items of a list.
func pages[T any](page func(cursor string) (session.ListPage[T], error), each func(T)) error {
	for cursor := ""; ; {
		p, err := page(cursor)
		if err != nil {
			return err
		}
		for _, item := range p.Items {
			each(item)
		}
		if p.Next == nil {
			return nil
		}
		cursor = *p.Next
	}
}
