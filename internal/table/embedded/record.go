package embedded

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/lambae/lambae/internal/table"
)

// An item's key in the tree is pk, a zero byte, sk: keys have no zero byte, so
// partitions never mix and each one is sorted by sk.
//
// Its value is a header of two varints, the version and the expiry in Unix
// seconds (0 = never), and the body.

func treeKey(k table.Key) []byte {
	b := make([]byte, 0, len(k.PK)+1+len(k.SK))
	b = append(b, k.PK...)
	b = append(b, 0)
	return append(b, k.SK...)
}

func splitKey(b []byte) table.Key {
	pk, sk, _ := strings.Cut(string(b), "\x00")
	return table.Key{PK: pk, SK: sk}
}

type header struct {
	version int64
	expires int64
}

const maxHeader = 2 * binary.MaxVarintLen64

// A draft is a value whose version is not decided yet: room for the header, then
// the body. The committer only has to fill in the header, right before the body.
type draft []byte

func newDraft(body []byte) draft {
	d := make(draft, maxHeader+len(body))
	copy(d[maxHeader:], body)
	return d
}

// finish writes the header and returns the value.
func (d draft) finish(h header) []byte {
	var room [maxHeader]byte
	b := binary.AppendUvarint(room[:0], uint64(h.version))
	b = binary.AppendUvarint(b, uint64(h.expires))
	start := maxHeader - len(b)
	copy(d[start:], b)
	return d[start:]
}

// parse splits a value into its header and the body, which still belongs to the
// file. A nil value is no item: the zero header.
func parse(value []byte) (header, []byte, error) {
	if value == nil {
		return header{}, nil, nil
	}
	version, n := binary.Uvarint(value)
	if n <= 0 || version == 0 {
		return header{}, nil, fmt.Errorf("embedded: an item's header is damaged: % x", value[:min(len(value), maxHeader)])
	}
	expires, m := binary.Uvarint(value[n:])
	if m <= 0 {
		return header{}, nil, fmt.Errorf("embedded: an item's header is damaged: % x", value[:min(len(value), maxHeader)])
	}
	return header{version: int64(version), expires: int64(expires)}, value[n+m:], nil
}

// item copies a value out of the file. A nil value gives an item that does not
// exist.
func item(k table.Key, value []byte) (table.Item, error) {
	h, body, err := parse(value)
	if err != nil {
		return table.Item{}, fmt.Errorf("read %q %q: %w", k.PK, k.SK, err)
	}
	return table.Item{
		Key:     k,
		Body:    bytes.Clone(body),
		Version: h.version,
		Expires: table.ExpiryTime(h.expires),
	}, nil
}

// An entry of the expiry tree is the second as 8 big-endian bytes and then the
// item's key: the tree is sorted by what expires first.

func expiryKey(seconds int64, treeKey []byte) []byte {
	b := make([]byte, 0, 8+len(treeKey))
	b = binary.BigEndian.AppendUint64(b, uint64(seconds))
	return append(b, treeKey...)
}

func splitExpiryKey(b []byte) (seconds int64, treeKey []byte) {
	return int64(binary.BigEndian.Uint64(b)), b[8:]
}
