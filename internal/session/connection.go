package session

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/lambae/lambae/internal/table"
)

// Connection is a WebSocket that a gateway holds for a session: no process has
// it, so who writes to the session must find it here. Two items keep it: by its
// id, which tells the session, and by the session, with how far it has read.
type Connection struct {
	ID      string
	Session string
	Key     string // client key id of the session key it came with
	// Subscriber is nil until the client subscribes.
	Subscriber *Subscriber

	version int64
}

// ErrNoConnection is returned when a connection is not known (any more).
var ErrNoConnection = errors.New("no such connection")

// connectionKeep is how long the items of a connection outlive their last write,
// should nobody notice its end. API Gateway ends connections after 2 h.
const connectionKeep = 3 * time.Hour

// A connection's items.
type (
	connectionRef struct {
		Session string `json:"session"`
	}
	connectionItem struct {
		Key        string      `json:"key"`
		Subscriber *Subscriber `json:"subscriber,omitempty"`
	}
)

func connectionKey(id string) table.Key { return table.Key{PK: "WC#" + id, SK: "META"} }

func sessionConnectionsPK(session string) string { return "WS#" + session }

// AddConnection notes a new connection. It is found by its session from now on.
func (s *Store) AddConnection(ctx context.Context, id, session, key string) error {
	expires := s.now().Add(connectionKeep)
	c := Connection{ID: id, Session: session, Key: key}
	_, err := s.table.Put(ctx, table.Op{Key: connectionKey(id), Body: MarshalJSON(connectionRef{session}), Expires: expires})
	if err == nil {
		_, err = s.table.Put(ctx, table.Op{Key: c.item(), Body: c.body(), Expires: expires})
	}
	if err != nil {
		return fmt.Errorf("note connection %s of %s: %w", id, session, err)
	}
	return nil
}

func (c *Connection) item() table.Key {
	return table.Key{PK: sessionConnectionsPK(c.Session), SK: c.ID}
}

func (c *Connection) body() []byte { return MarshalJSON(connectionItem{c.Key, c.Subscriber}) }

// Connection returns a connection by its id, or [ErrNoConnection].
func (s *Store) Connection(ctx context.Context, id string) (*Connection, error) {
	c := &Connection{ID: id}
	items, err := s.table.Get(ctx, connectionKey(id))
	if err == nil && items[0].Exists() {
		var ref connectionRef
		if err = decodeItem(items[0], &ref); err == nil {
			c.Session = ref.Session
			items, err = s.table.Get(ctx, c.item())
		}
	}
	if err != nil {
		return nil, fmt.Errorf("read connection %s: %w", id, err)
	}
	if !items[0].Exists() {
		return nil, ErrNoConnection
	}
	return c, c.decode(items[0])
}

func (c *Connection) decode(it table.Item) error {
	var v connectionItem
	if err := decodeItem(it, &v); err != nil {
		return err
	}
	c.Key, c.Subscriber, c.version = v.Key, v.Subscriber, it.Version
	return nil
}

// Connections returns the connections of a session. One whose item cannot be
// read is left out and told to skipped: it must not keep the others from their
// events.
func (s *Store) Connections(ctx context.Context, session string, skipped func(id string, err error)) ([]*Connection, error) {
	var out []*Connection
	for it, err := range s.table.Query(ctx, table.Range{PK: sessionConnectionsPK(session)}) {
		if err != nil {
			return nil, fmt.Errorf("read the connections of %s: %w", session, err)
		}
		c := &Connection{ID: it.SK, Session: session}
		if err := c.decode(it); err != nil {
			skipped(c.ID, err)
			continue
		}
		out = append(out, c)
	}
	return out, nil
}

// SaveConnection writes how far a connection has got. It fails with
// [table.ErrCondition] when another process wrote or dropped it meanwhile.
func (s *Store) SaveConnection(ctx context.Context, c *Connection) error {
	v, err := s.table.Put(ctx, table.Op{Key: c.item(), Body: c.body(), If: table.IfVersion(c.version), Expires: s.now().Add(connectionKeep)})
	if err != nil {
		return fmt.Errorf("move connection %s of %s: %w", c.ID, c.Session, err)
	}
	c.version = v
	return nil
}

// DropConnection forgets a connection. It is found by its session last, so that
// a drop that was cut short is one the next push repeats.
func (s *Store) DropConnection(ctx context.Context, c *Connection) error {
	_, err := s.table.Put(ctx, table.Op{Key: connectionKey(c.ID), Delete: true})
	if err == nil {
		_, err = s.table.Put(ctx, table.Op{Key: c.item(), Delete: true})
	}
	if err != nil {
		return fmt.Errorf("forget connection %s of %s: %w", c.ID, c.Session, err)
	}
	return nil
}

// ChunkOwner returns the session whose log has a chunk under the key, which is
// how a table's change stream names it.
func ChunkOwner(k table.Key) (session string, ok bool) {
	session, ok = strings.CutPrefix(k.PK, "S#")
	if !ok || !IsID(SessionPrefix, session) || !strings.HasPrefix(k.SK, "L#") {
		return "", false
	}
	return session, true
}

// WithoutPayload is the event for a channel that it is too large for: its
// payload is null and the event marked payload_omitted.
func (r *Rendered) WithoutPayload() []byte {
	const payload = `"payload":`
	head, tail := string(r.Segments[0]), string(r.Segments[len(r.Segments)-1])
	// Nothing before the payload can hold its name, and what follows it is a time
	// of fixed length.
	head = head[:strings.Index(head, payload)+len(payload)]
	tail = tail[len(tail)-len(`,"created_at":"`)-len(TimeFormat)-len(`"}`):]
	return []byte(head + `null,"payload_omitted":true` + tail)
}
