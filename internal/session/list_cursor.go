package session

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strings"
)

// ErrInvalidCursor refuses a cursor that was never issued for the list it was
// used on.
type ErrInvalidCursor struct{ Cursor string }

func (e ErrInvalidCursor) Error() string {
	const shown = 100
	if len(e.Cursor) > shown {
		return fmt.Sprintf("invalid cursor: %q and %d bytes more", e.Cursor[:shown], len(e.Cursor)-shown)
	}
	return fmt.Sprintf("invalid cursor: %q", e.Cursor)
}

const (
	cursorVersion = 1
	cursorSum     = 6 // bytes of checksum: enough to tell a made-up cursor, not meant to stop a forger
)

// EncodeCursor makes the opaque cursor for a position in a list: up to 200
// printable ASCII characters. The list's name is part of the checksum, so that a
// cursor fits no other list.
func EncodeCursor(list, position string) string {
	b := append([]byte{cursorVersion}, cursorChecksum(list, position)...)
	return base64.RawURLEncoding.EncodeToString(append(b, position...))
}

// DecodeCursor returns the position a cursor of this list stands for, and "" for
// the empty cursor, which is the list's start. Else it returns [ErrInvalidCursor].
func DecodeCursor(list, cursor string) (position string, err error) {
	if cursor == "" {
		return "", nil
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(cursor)
	if err != nil || len(b) <= 1+cursorSum || b[0] != cursorVersion {
		return "", ErrInvalidCursor{cursor}
	}
	position = string(b[1+cursorSum:])
	// The checksum is no secret, so what it covers is looked at as well: it ends
	// up in keys.
	if string(cursorChecksum(list, position)) != string(b[1:1+cursorSum]) || !plainPosition(position) {
		return "", ErrInvalidCursor{cursor}
	}
	return position, nil
}

// plainPosition holds for every position that was ever encoded: short and
// printable.
func plainPosition(s string) bool {
	return len(s) <= 200 && !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' })
}

func cursorChecksum(list, position string) []byte {
	sum := sha256.Sum256([]byte(list + "\x00" + position))
	return sum[:cursorSum]
}
