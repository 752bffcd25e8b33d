package session

import (
	"context"
	"fmt"
	"time"

	"github.com/lambae/lambae/internal/table"
	"golang.org/x/sync/errgroup"
)

// SessionRow is what the list of sessions says of one.
type SessionRow struct {
	ID            string     `json:"id"`
	ProfileID     string     `json:"profile_id"`
	State         string     `json:"state"` // open, closed or error
	ClientVersion *string    `json:"client_version"`
	CreatedAt     time.Time  `json:"created_at"`
	ClosedAt      *time.Time `json:"closed_at"`
}

// LoggedState is what a session's log says of the session.
type LoggedState struct {
	Exists    bool // whether there is a log at all; if not, the rest is empty
	State     string
	CreatedAt time.Time
	ClosedAt  *time.Time // nil while it is open
}

// StateLookup reads a session's log as far as needed to tell its state.
type StateLookup func(ctx context.Context, id string) (LoggedState, error)

const (
	sessionKind   = "session" // of its list
	sessionShards = 8

	// stateClosing is a row's state while its session is about to end. Only the
	// log knows whether it did.
	stateClosing = "closing"

	// A page looks at no more than maxScannedRows rows, so that a rare state does
	// not make one request read the whole list.
	maxScannedRows = 2000

	// orphanAfter is the age at which a row without a log is known to have none
	// coming: its opener died first. No request lives so long.
	orphanAfter = 20 * time.Minute
)

// storedRow is a row as kept. The log decides what is true; the row only keeps
// listings from reading every log.
type storedRow struct {
	SessionRow
	// Confirmed says that the session's log was seen to exist.
	Confirmed bool `json:"confirmed"`
}

// AddSessionRow lists a session. It comes before chunk 0 of its log: a row
// without a log is harmless, a session that no list shows is not. ID and
// CreatedAt find the row again, so the other two methods need the same ones:
// CreatedAt is the time of chunk 0.
func (d *Directory) AddSessionRow(ctx context.Context, row SessionRow) error {
	return d.putSessionRow(ctx, storedRow{SessionRow: row})
}

// MarkSessionClosing says that a session is about to reach a terminal state. It
// comes before the chunk that does it.
func (d *Directory) MarkSessionClosing(ctx context.Context, row SessionRow) error {
	row.State = stateClosing
	return d.putSessionRow(ctx, storedRow{SessionRow: row, Confirmed: true})
}

// MarkSessionTerminal says how and when a session ended, after the chunk that
// did it. State is closed or error.
func (d *Directory) MarkSessionTerminal(ctx context.Context, row SessionRow, state string, closedAt time.Time) error {
	row.State, row.ClosedAt = state, &closedAt
	return d.putSessionRow(ctx, storedRow{SessionRow: row, Confirmed: true})
}

// putSessionRow writes without a condition: when two writers cross, the worst
// left behind is a row that is not final, and such a row asks the log.
func (d *Directory) putSessionRow(ctx context.Context, row storedRow) error {
	_, err := d.table.Put(ctx, sessionRowOp(row, table.Condition{}))
	return wrapWrite(err, "list session %s as %s", row.ID, row.State)
}

// ListSessions pages through the sessions, oldest first; state, if not "", keeps
// those in that state. Rows that a crash or a running request left unfinished are
// settled by asking lookup, and written down when the answer is final. See [ListPage].
func (d *Directory) ListSessions(ctx context.Context, state, cursor string, limit int, lookup StateLookup) (ListPage[SessionRow], error) {
	page := ListPage[SessionRow]{Items: []SessionRow{}}
	position, err := DecodeCursor(sessionKind, cursor)
	if err != nil {
		return page, err
	}
	rows := d.mergeShards(sessionKind, sessionShards, position, limit/4+2)
	for scanned := 0; scanned < maxScannedRows; {
		batch, err := rows.take(ctx, limit+1)
		if err != nil {
			return page, err
		}
		settled, err := d.settleRows(ctx, batch, lookup)
		if err != nil {
			return page, err
		}
		for i, row := range settled {
			if row == nil || state != "" && row.State != state {
				position = batch[i].SK
				continue
			}
			if len(page.Items) == limit {
				next := EncodeCursor(sessionKind, position)
				page.Next = &next
				return page, nil
			}
			page.Items = append(page.Items, *row)
			position = batch[i].SK
		}
		if len(batch) <= limit {
			return page, nil
		}
		scanned += len(batch)
	}
	next := EncodeCursor(sessionKind, position)
	page.Next = &next
	return page, nil
}

// settleRows returns what each row truly is, nil for one that is no session.
func (d *Directory) settleRows(ctx context.Context, items []table.Item, lookup StateLookup) ([]*SessionRow, error) {
	out := make([]*SessionRow, len(items))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(8)
	for i, item := range items {
		var row storedRow
		if err := decodeItem(item, &row); err != nil {
			return nil, err
		}
		if row.Confirmed && row.State != stateClosing {
			out[i] = &row.SessionRow
			continue
		}
		group.Go(func() (err error) {
			out[i], err = d.settleRow(ctx, item, row, lookup)
			return err
		})
	}
	return out, group.Wait()
}

func (d *Directory) settleRow(ctx context.Context, item table.Item, row storedRow, lookup StateLookup) (*SessionRow, error) {
	logged, err := lookup(ctx, row.ID)
	if err != nil {
		return nil, fmt.Errorf("look up session %s for its row: %w", row.ID, err)
	}
	if !logged.Exists && d.instant().Sub(row.CreatedAt) < orphanAfter {
		return nil, nil // being opened right now, perhaps
	}
	stale := !logged.Exists
	if !stale {
		if stale, err = d.supplanted(ctx, row, logged); err != nil {
			return nil, err
		}
	}
	if stale {
		d.mendRow(ctx, table.Op{Key: item.Key, If: table.IfVersion(item.Version), Delete: true})
		return nil, nil
	}
	closing := row.State == stateClosing
	row.State, row.ClosedAt, row.Confirmed = logged.State, logged.ClosedAt, true
	// A closing row of an open session must keep asking: whoever is closing it may
	// be about to.
	if !closing || logged.State != StateOpen {
		d.mendRow(ctx, sessionRowOp(row, table.IfVersion(item.Version)))
	}
	return &row.SessionRow, nil
}

// supplanted reports whether a row is what is left of an opening that failed and
// was done again later under the same id, which then has its own row.
func (d *Directory) supplanted(ctx context.Context, row storedRow, logged LoggedState) (bool, error) {
	own := row
	own.CreatedAt = logged.CreatedAt
	key := sessionRowOp(own, table.Condition{}).Key
	if key == sessionRowOp(row, table.Condition{}).Key {
		return false, nil
	}
	items, err := d.get(ctx, "the row of session "+row.ID, key)
	if err != nil {
		return false, err
	}
	return items[0].Exists(), nil
}

// mendRow writes down what was found out. It is a favour to the next listing:
// this one's answer is right without, so a failure does not matter.
func (d *Directory) mendRow(ctx context.Context, op table.Op) { _, _ = d.table.Put(ctx, op) }

func sessionRowOp(row storedRow, cond table.Condition) table.Op {
	return putItem(listPK(sessionKind, listShard(row.ID, sessionShards)), listSK(row.CreatedAt, row.ID), row, cond)
}
