package session

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lambae/lambae/internal/table"
)

// Profile says what sessions of its client keys may do (admin API, "profiles").
// Names of providers and MCP servers are resolved when they are used, not here.
type Profile struct {
	ID                 string   `json:"id"`
	Name               string   `json:"name"` // unique among profiles
	PrimaryProvider    string   `json:"primary_provider"`
	FallbackProviders  []string `json:"fallback_providers"`
	MCPServers         []string `json:"mcp_servers"`
	AllowedTools       []string `json:"allowed_tools"`
	AvailableSandboxes []string `json:"available_sandboxes"`
	// SystemPrompt, when set, goes to the provider as its system field.
	SystemPrompt *string `json:"system_prompt,omitempty"`
	// EventTTLDays is how long events are kept; nil keeps them.
	EventTTLDays *int `json:"event_ttl_days,omitempty"`
	// SandboxIdleMinutes is how long a sandbox may idle before it is stopped;
	// nil leaves it to the server.
	SandboxIdleMinutes *int      `json:"sandbox_idle_minutes,omitempty"`
	CreatedAt          time.Time `json:"created_at"`
	UpdatedAt          time.Time `json:"updated_at"`
}

const (
	profileKind    = "profile" // of its list
	profileSK      = "META"
	profileUsageSK = "KEYS"
)

// profileUsage counts a profile's active client keys. It is an item beside the
// profile, there as long as the profile is: a new key and a deletion both write
// it under its version, so only one of the two can win.
type profileUsage struct {
	Keys int `json:"keys"`
}

// profileName is the item that makes a name unique.
type profileName struct {
	ID string `json:"id"`
}

func profilePK(id string) string       { return "P#" + id }
func profileNamePK(name string) string { return "PN#" + name }

// CreateProfile stores p under a new id. The members ID, CreatedAt and
// UpdatedAt are set here. It returns [ErrDuplicateName], and
// [table.ErrTooLarge] for a profile over the size of an item.
func (d *Directory) CreateProfile(ctx context.Context, p Profile) (Profile, error) {
	p = p.filled()
	p.ID = NewID(ProfilePrefix)
	p.CreatedAt = d.instant()
	p.UpdatedAt = p.CreatedAt
	err := d.table.Write(ctx,
		putItem(profileNamePK(p.Name), profileSK, profileName{p.ID}, table.IfAbsent()),
		putItem(profilePK(p.ID), profileSK, p, table.IfAbsent()),
		putItem(profilePK(p.ID), profileUsageSK, profileUsage{}, table.IfAbsent()),
		putItem(listPK(profileKind, 0), listSK(p.CreatedAt, p.ID), profileName{p.ID}, table.Condition{}),
	)
	if !errors.Is(err, table.ErrCondition) {
		return p, wrapWrite(err, "create profile %q", p.Name)
	}
	// Either the name is taken, or this very write landed and its answer was lost
	// before the store tried it again.
	owner, err := d.nameOwner(ctx, p.Name)
	if err != nil || owner == p.ID {
		return p, err
	}
	return Profile{}, ErrDuplicateName
}

// Profile reads a profile. It returns [ErrNotFound] for one that never was or
// was deleted.
func (d *Directory) Profile(ctx context.Context, id string) (Profile, error) {
	p, _, err := d.profile(ctx, id)
	return p, err
}

// ListProfiles pages through the profiles, oldest first. See [ListPage].
func (d *Directory) ListProfiles(ctx context.Context, cursor string, limit int) (ListPage[Profile], error) {
	page := ListPage[Profile]{Items: []Profile{}}
	rows, next, err := d.listRows(ctx, profileKind, cursor, limit)
	if err != nil || len(rows) == 0 {
		return page, err
	}
	page.Next = next
	keys := make([]table.Key, len(rows))
	for i, row := range rows {
		keys[i] = table.Key{PK: profilePK(listedID(row.SK)), SK: profileSK}
	}
	items, err := d.get(ctx, "the profiles of a page", keys...)
	if err != nil {
		return page, err
	}
	for _, item := range items {
		if !item.Exists() {
			continue // deleted since its row was read
		}
		p, err := decodeProfile(item)
		if err != nil {
			return page, err
		}
		page.Items = append(page.Items, p)
	}
	return page, nil
}

// ReplaceProfile puts p in the place of the profile with this id; only ID and
// CreatedAt stay. It returns [ErrNotFound], [ErrDuplicateName] and
// [table.ErrTooLarge].
func (d *Directory) ReplaceProfile(ctx context.Context, id string, p Profile) (Profile, error) {
	p = p.filled()
	err := d.retry(ctx, "replace profile "+id, func() error {
		old, item, err := d.profile(ctx, id)
		if err != nil {
			return err
		}
		p.ID, p.CreatedAt, p.UpdatedAt = id, old.CreatedAt, d.instant()
		if p.UpdatedAt.Before(old.UpdatedAt) {
			p.UpdatedAt = old.UpdatedAt
		}
		put := putItem(profilePK(id), profileSK, p, table.IfVersion(item.Version))
		if p.Name == old.Name {
			_, err := d.table.Put(ctx, put)
			return wrapWrite(err, "replace profile %s", id)
		}
		switch owner, err := d.nameOwner(ctx, p.Name); {
		case err != nil:
			return err
		case owner != "":
			return ErrDuplicateName
		}
		// The old name's item needs no condition: it is this profile's as long as
		// the profile's version holds.
		err = d.table.Write(ctx, put,
			putItem(profileNamePK(p.Name), profileSK, profileName{id}, table.IfAbsent()),
			table.Op{Key: table.Key{PK: profileNamePK(old.Name), SK: profileSK}, Delete: true},
		)
		return wrapWrite(err, "replace profile %s", id)
	})
	if err != nil {
		return Profile{}, err
	}
	return p, nil
}

// DeleteProfile removes a profile and frees its name. Sessions that run under
// it stay; their next turn finds it gone. It returns [ErrNotFound], and
// [ErrProfileInUse] while the profile has active client keys.
func (d *Directory) DeleteProfile(ctx context.Context, id string) error {
	tried := false
	return d.retry(ctx, "delete profile "+id, func() error {
		p, item, err := d.profile(ctx, id)
		if tried && errors.Is(err, ErrNotFound) {
			return nil // it went while this call deleted it, by its own write or by another's
		}
		if err != nil {
			return err
		}
		usage, usageItem, err := d.profileUsage(ctx, id)
		if err != nil {
			if errors.Is(err, ErrProfileUnavailable) {
				return ErrNotFound // deleted between the two reads
			}
			return err
		}
		if usage.Keys > 0 {
			return ErrProfileInUse{N: usage.Keys}
		}
		tried = true
		err = d.table.Write(ctx,
			table.Op{Key: item.Key, If: table.IfVersion(item.Version), Delete: true},
			table.Op{Key: usageItem.Key, If: table.IfVersion(usageItem.Version), Delete: true},
			table.Op{Key: table.Key{PK: profileNamePK(p.Name), SK: profileSK}, Delete: true},
			table.Op{Key: table.Key{PK: listPK(profileKind, 0), SK: listSK(p.CreatedAt, id)}, Delete: true},
		)
		return wrapWrite(err, "delete profile %s", id)
	})
}

func (d *Directory) profile(ctx context.Context, id string) (Profile, table.Item, error) {
	if !IsID(ProfilePrefix, id) {
		return Profile{}, table.Item{}, ErrNotFound
	}
	items, err := d.get(ctx, "profile "+id, table.Key{PK: profilePK(id), SK: profileSK})
	if err != nil {
		return Profile{}, table.Item{}, err
	}
	if !items[0].Exists() {
		return Profile{}, table.Item{}, ErrNotFound
	}
	p, err := decodeProfile(items[0])
	return p, items[0], err
}

// profileUsage returns [ErrProfileUnavailable] when there is no such profile.
func (d *Directory) profileUsage(ctx context.Context, id string) (profileUsage, table.Item, error) {
	var usage profileUsage
	if !IsID(ProfilePrefix, id) {
		return usage, table.Item{}, ErrProfileUnavailable
	}
	items, err := d.get(ctx, "the key count of profile "+id, table.Key{PK: profilePK(id), SK: profileUsageSK})
	if err != nil {
		return usage, table.Item{}, err
	}
	if !items[0].Exists() {
		return usage, table.Item{}, ErrProfileUnavailable
	}
	return usage, items[0], decodeItem(items[0], &usage)
}

// nameOwner returns the id of the profile that has the name, or "".
func (d *Directory) nameOwner(ctx context.Context, name string) (string, error) {
	items, err := d.get(ctx, "a profile's name", table.Key{PK: profileNamePK(name), SK: profileSK})
	if err != nil || !items[0].Exists() {
		return "", err
	}
	var owner profileName
	err = decodeItem(items[0], &owner)
	return owner.ID, err
}

func decodeProfile(item table.Item) (Profile, error) {
	var p Profile
	err := decodeItem(item, &p)
	return p.filled(), err
}

// filled returns p with empty lists in the place of missing ones, which is how
// the API shows them.
func (p Profile) filled() Profile {
	for _, list := range []*[]string{&p.FallbackProviders, &p.MCPServers, &p.AllowedTools, &p.AvailableSandboxes} {
		if *list == nil {
			*list = []string{}
		}
	}
	return p
}

// wrapWrite says what was being written; a lost condition stays recognisable.
func wrapWrite(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf(format+": %w", append(args, err)...)
}
