package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/lambae/lambae/internal/table"
)

// SandboxRow is what is known of a sandbox outside its session's log. It is
// written before the log's start event and removed when the sandbox has ended and
// the log says so: whatever crashes in between, a sweep finds it.
type SandboxRow struct {
	ID      string    `json:"id"`
	Session string    `json:"session"`
	Profile string    `json:"profile"` // id of the session's
	Image   string    `json:"image"`
	Driver  string    `json:"driver"` // name of the driver that has it
	Created time.Time `json:"created"`
	Used    time.Time `json:"used"` // when a command last ran in it, to about a minute
}

// SandboxPK is the partition of a sandbox: its row, and what its driver keeps.
func SandboxPK(id string) string { return "X#" + id }

// activePK lists the sandboxes that have not ended yet. They are few: a sandbox is
// a machine that somebody pays for.
const activePK = "XA"

const sandboxSK = "META"

func sandboxKey(id string) table.Key { return table.Key{PK: SandboxPK(id), SK: sandboxSK} }

// ErrNoSandboxRow is returned for a sandbox that never was, or has ended.
var ErrNoSandboxRow = errors.New("no such sandbox")

// AddSandbox notes a sandbox that is about to start.
func (s *Store) AddSandbox(ctx context.Context, r SandboxRow) error {
	_, err := s.table.Put(ctx, table.Op{Key: table.Key{PK: activePK, SK: r.ID}, Body: MarshalJSON(s.now().UnixMilli())})
	if err == nil {
		err = s.NoteSandbox(ctx, r)
	}
	if err != nil {
		return fmt.Errorf("note sandbox %s of %s: %w", r.ID, r.Session, err)
	}
	return nil
}

// NoteSandbox writes the row of a sandbox anew.
func (s *Store) NoteSandbox(ctx context.Context, r SandboxRow) error {
	_, err := s.table.Put(ctx, table.Op{Key: sandboxKey(r.ID), Body: MarshalJSON(r)})
	return err
}

// Sandbox reads a sandbox's row. [ErrNoSandboxRow] when it has ended.
func (s *Store) Sandbox(ctx context.Context, id string) (r SandboxRow, err error) {
	items, err := s.table.Get(ctx, sandboxKey(id))
	if err != nil {
		return r, fmt.Errorf("read sandbox %s: %w", id, err)
	}
	if !items[0].Exists() {
		return r, ErrNoSandboxRow
	}
	if err := json.Unmarshal(items[0].Body, &r); err != nil {
		return r, fmt.Errorf("read sandbox %s: %w", id, err)
	}
	return r, nil
}

// UseSandbox notes that a sandbox is in use, at most once a minute. One that has
// ended stays so.
func (s *Store) UseSandbox(ctx context.Context, id string) error {
	items, err := s.table.Get(ctx, sandboxKey(id))
	if err != nil || !items[0].Exists() {
		return err
	}
	var r SandboxRow
	if err := json.Unmarshal(items[0].Body, &r); err != nil {
		return fmt.Errorf("read sandbox %s: %w", id, err)
	}
	if s.now().Sub(r.Used) < time.Minute {
		return nil
	}
	r.Used = s.now()
	_, err = s.table.Put(ctx, table.Op{Key: sandboxKey(id), Body: MarshalJSON(r), If: table.IfVersion(items[0].Version)})
	if errors.Is(err, table.ErrCondition) {
		return nil // somebody else noted it, or its end
	}
	return err
}

// DropSandbox forgets a sandbox that has ended.
func (s *Store) DropSandbox(ctx context.Context, id string) error {
	for _, k := range []table.Key{sandboxKey(id), {PK: activePK, SK: id}} {
		if _, err := s.table.Put(ctx, table.Op{Key: k, Delete: true}); err != nil {
			return fmt.Errorf("forget sandbox %s: %w", id, err)
		}
	}
	return nil
}

// Sandboxes returns the rows of all sandboxes that have not ended yet.
func (s *Store) Sandboxes(ctx context.Context) (rows []SandboxRow, err error) {
	var listed []table.Item
	for it, err := range s.table.Query(ctx, table.Range{PK: activePK}) {
		if err != nil {
			return nil, fmt.Errorf("list sandboxes: %w", err)
		}
		listed = append(listed, it)
	}
	for _, it := range listed {
		r, err := s.Sandbox(ctx, it.SK)
		if errors.Is(err, ErrNoSandboxRow) {
			// A process died between the two writes of an end, or is between those of a
			// beginning.
			var since int64
			if json.Unmarshal(it.Body, &since) == nil && s.now().Sub(time.UnixMilli(since)) > StartLease {
				if err := s.DropSandbox(ctx, it.SK); err != nil {
					return nil, err
				}
			}
			continue
		}
		if err != nil {
			return nil, err
		}
		rows = append(rows, r)
	}
	return rows, nil
}
