package session

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"
)

// FormatVersion is written into every chunk. A process that meets a newer one
// reads what it can show but refuses to append: it could not fold it.
const FormatVersion = 1

// maxEvents is the most events a chunk holds: an event id has three hex digits
// for the index.
const maxEvents = 1 << 12

// Entry is one element of a chunk: a public event or a mark, by its Type. An
// event has Key and Payload; the other fields belong to the marks and to the
// two events whose payload is not stored but rebuilt from the history.
type Entry struct {
	Type    string          `json:"t"`
	Key     string          `json:"k,omitempty"` // client key id
	Payload json.RawMessage `json:"p,omitempty"`
	// Reach of a provider.request: how many operations of the history its
	// messages cover. Of a server.message.send without payload: the operation
	// that appended the message.
	Reach int64 `json:"r,omitempty"`
	// Hash is the tool list of a provider.request or the session key of a
	// key.session mark; hex SHA-256.
	Hash string `json:"h,omitempty"`
	// Ref is the position a mark speaks of: the waiter that begins or leaves,
	// the turn that is broken.
	Ref int64 `json:"f,omitempty"`
	// Wall is the writer's clock in Unix ms, on marks whose age counts.
	Wall int64 `json:"w,omitempty"`
	// Boot is the process that wrote the mark.
	Boot string `json:"b,omitempty"`
	// Outcome of turn.end and reason of turn.broken.
	Outcome string `json:"o,omitempty"`
	Idem    *Idem  `json:"i,omitempty"`
}

// Idem is a spent idempotency key and what it was spent on.
type Idem struct {
	Key  string `json:"k"` // hash of key, method and path
	Body string `json:"b"` // hash of the request body
}

// IsEvent reports whether clients see the entry.
func (e *Entry) IsEvent() bool { return eventTypes[e.Type] }

// Chunk is one append of the log.
type Chunk struct {
	N       int64   // position, dense from 0
	Format  int     // [FormatVersion] of the writer
	Nonce   string  // 20 hex characters, the writer's own
	At      int64   // created_at of its events, Unix ms, never back within a session
	Turn    int64   // identity of the turn whose call it belongs to, 0 for none
	Entries []Entry // in order
	// Unknown is set when a reader met an entry type it does not know.
	Unknown bool

	blob *blobRef
}

// blobRef names parts that hold a chunk's entries (or another large value).
type blobRef struct {
	ID    string `json:"id"`
	Parts int    `json:"n"`
}

// ErrUnknownFormat says the log holds something a newer release wrote. Clients
// get 503: the session is fine, this process is too old for it.
var ErrUnknownFormat = errors.New("the session was written by a newer release of lambae; upgrade this server")

// EventID is the id of the i-th event of a chunk: its position, then the
// chunk's nonce, which nobody can guess.
func EventID(n int64, i int, nonce string) string {
	b := make([]byte, 0, 36)
	b = append(b, EventPrefix...)
	b = appendHex(b, uint64(n), 9)
	b = appendHex(b, uint64(i), 3)
	return string(append(b, nonce...))
}

// ParseEventID splits an event id. ok is false for anything [EventID] never gives.
func ParseEventID(id string) (n int64, i int, nonce string, ok bool) {
	if !IsID(EventPrefix, id) {
		return 0, 0, "", false
	}
	v, err := strconv.ParseUint(id[4:16], 16, 64)
	if err != nil {
		return 0, 0, "", false
	}
	return int64(v >> 12), int(v & (maxEvents - 1)), id[16:], true
}

func appendHex(dst []byte, v uint64, digits int) []byte {
	const hexDigits = "0123456789abcdef"
	for s := 4 * (digits - 1); s >= 0; s -= 4 {
		dst = append(dst, hexDigits[v>>s&15])
	}
	return dst
}

// events returns how many public events the chunk has.
func (c *Chunk) events() (n int) {
	for i := range c.Entries {
		if c.Entries[i].IsEvent() {
			n++
		}
	}
	return n
}

// Time is the created_at of the chunk's events.
func (c *Chunk) Time() time.Time { return time.UnixMilli(c.At) }

type chunkJSON struct {
	Format  int      `json:"v"`
	Nonce   string   `json:"n"`
	At      int64    `json:"at"`
	Turn    int64    `json:"turn,omitempty"`
	Blob    *blobRef `json:"blob,omitempty"`
	Entries []Entry  `json:"e,omitempty"`
}

// encode returns the chunk as stored, before compression. With a blob the
// entries are elsewhere.
func (c *Chunk) encode(entries []byte) []byte {
	b := make([]byte, 0, len(entries)+128)
	b = append(b, `{"v":`...)
	b = strconv.AppendInt(b, int64(c.Format), 10)
	b = append(b, `,"n":"`...)
	b = append(b, c.Nonce...)
	b = append(b, `","at":`...)
	b = strconv.AppendInt(b, c.At, 10)
	if c.Turn != 0 {
		b = append(b, `,"turn":`...)
		b = strconv.AppendInt(b, c.Turn, 10)
	}
	if c.blob != nil {
		b = fmt.Appendf(b, `,"blob":{"id":"%s","n":%d}`, c.blob.ID, c.blob.Parts)
	} else {
		b = append(b, `,"e":`...)
		b = append(b, entries...)
	}
	return append(b, '}')
}

// appendEntries writes entries as JSON. Payloads are JSON already and go in as
// they are: they were compacted where they came in.
func appendEntries(b []byte, entries []Entry) []byte {
	b = append(b, '[')
	for i := range entries {
		if i > 0 {
			b = append(b, ',')
		}
		b = entries[i].append(b)
	}
	return append(b, ']')
}

func (e *Entry) append(b []byte) []byte {
	b = append(b, `{"t":"`...)
	b = append(b, e.Type...)
	b = append(b, '"')
	str := func(name, v string) {
		if v == "" {
			return
		}
		b = append(b, ',', '"')
		b = append(b, name...)
		b = append(b, `":`...)
		b = appendString(b, v)
	}
	num := func(name string, v int64) {
		if v == 0 {
			return
		}
		b = append(b, ',', '"')
		b = append(b, name...)
		b = append(b, `":`...)
		b = strconv.AppendInt(b, v, 10)
	}
	str("k", e.Key)
	if len(e.Payload) > 0 {
		b = append(b, `,"p":`...)
		b = append(b, e.Payload...)
	}
	num("r", e.Reach)
	str("h", e.Hash)
	num("f", e.Ref)
	num("w", e.Wall)
	str("b", e.Boot)
	str("o", e.Outcome)
	if e.Idem != nil {
		b = fmt.Appendf(b, `,"i":{"k":"%s","b":"%s"}`, e.Idem.Key, e.Idem.Body)
	}
	return append(b, '}')
}

// decodeChunk reads a stored chunk. Its entries are still missing when it names
// a blob.
func decodeChunk(n int64, b []byte) (*Chunk, error) {
	var j chunkJSON
	if err := json.Unmarshal(b, &j); err != nil {
		return nil, fmt.Errorf("decode chunk %d: %w", n, err)
	}
	c := &Chunk{N: n, Format: j.Format, Nonce: j.Nonce, At: j.At, Turn: j.Turn, Entries: j.Entries, blob: j.Blob}
	c.check()
	return c, nil
}

func (c *Chunk) decodeEntries(b []byte) error {
	if err := json.Unmarshal(b, &c.Entries); err != nil {
		return fmt.Errorf("decode chunk %d: %w", c.N, err)
	}
	c.check()
	return nil
}

func (c *Chunk) check() {
	c.Unknown = c.Format > FormatVersion
	for i := range c.Entries {
		if t := c.Entries[i].Type; !eventTypes[t] && !markTypes[t] {
			c.Unknown = true
		}
	}
}

// chunkKey is the sort key of chunk n. Twelve digits keep byte order and number
// order the same.
func chunkKey(n int64) string { return fmt.Sprintf("L#%012d", n) }

func newNonce() string { return randomHex(10) }

// appendString appends s as a JSON string. Most strings here are ids and need
// no escape.
func appendString(b []byte, s string) []byte {
	for i := 0; i < len(s); i++ {
		if c := s[i]; c < 0x20 || c == '"' || c == '\\' || c >= 0x7f {
			return appendQuoted(b, s)
		}
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}
