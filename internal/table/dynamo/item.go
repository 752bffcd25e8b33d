package dynamo

import (
	"encoding/binary"
	"fmt"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/lambae/lambae/internal/table"
)

type attributes = map[string]types.AttributeValue

func text(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }
func number(n int64) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: strconv.FormatInt(n, 10)}
}
func binaryOf(b []byte) types.AttributeValue { return &types.AttributeValueMemberB{Value: b} }

func keyAttributes(k table.Key) attributes {
	return attributes{"pk": text(k.PK), "sk": text(k.SK)}
}

// keyOf is the key of a stored item.
func keyOf(a attributes) table.Key {
	pk, _ := a["pk"].(*types.AttributeValueMemberS)
	sk, _ := a["sk"].(*types.AttributeValueMemberS)
	if pk == nil || sk == nil {
		return table.Key{}
	}
	return table.Key{PK: pk.Value, SK: sk.Value}
}

// decode makes an item of what is stored.
func decode(a attributes) (table.Item, error) {
	it := table.Item{Key: keyOf(a)}
	var err error
	if it.Version, err = numberIn(a, "v"); err != nil || it.Version == 0 {
		return table.Item{}, fmt.Errorf("dynamo: item %q %q was not written by this program: attribute v is missing or no version", it.PK, it.SK)
	}
	expires, err := numberIn(a, "x")
	if err != nil {
		return table.Item{}, fmt.Errorf("dynamo: item %q %q: %w", it.PK, it.SK, err)
	}
	it.Expires = table.ExpiryTime(expires)
	if b, ok := a["b"].(*types.AttributeValueMemberB); ok {
		it.Body = b.Value
	}
	return it, nil
}

// numberIn is 0 when the attribute is missing.
func numberIn(a attributes, name string) (int64, error) {
	v, ok := a[name]
	if !ok {
		return 0, nil
	}
	n, ok := v.(*types.AttributeValueMemberN)
	if !ok {
		return 0, fmt.Errorf("attribute %s is no number", name)
	}
	i, err := strconv.ParseInt(n.Value, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("attribute %s: %w", name, err)
	}
	return i, nil
}

// Versions must change with every write, for which no write reads first, and
// must not come back when an item is deleted and written again. So every item
// starts with a random multiple of versionStep, which a put under IfVersion
// counts up. A plain put does not know what it writes over; it starts anew in
// the middle of a step, to be told from an item's first version.
const versionStep = 1 << 20

func (t *Table) version(c table.Condition) int64 {
	if c.Version() != 0 {
		return c.Version() + 1
	}
	start := int64(t.random()>>2) &^ (versionStep - 1) // 62 bits: room to count
	if start == 0 {
		start = versionStep
	}
	if !c.Absent() {
		start += versionStep / 2
	}
	return start
}

// rivals reports whether version is what a competitor's put under the same
// condition would have made, had it come first: an item's first version for
// IfAbsent, the next one for IfVersion.
func rivals(c table.Condition, version int64) bool {
	if c.Absent() {
		return version%versionStep == 0
	}
	return version == c.Version()+1
}

func (t *Table) nonce() []byte {
	return binary.BigEndian.AppendUint64(nil, t.random())
}

// newItem is what a put of op stores.
func newItem(op table.Op, version int64, nonce []byte) attributes {
	a := keyAttributes(op.Key)
	a["v"] = number(version)
	a["w"] = binaryOf(nonce)
	if len(op.Body) > 0 {
		a["b"] = binaryOf(op.Body)
	}
	if x := table.ExpirySeconds(op.Expires); x != 0 {
		a["x"] = number(x)
	}
	return a
}

// expression is the condition in DynamoDB's words; nil when it always holds.
func expression(c table.Condition) (expr *string, values attributes) {
	var s string
	switch {
	case c.Absent():
		s = "attribute_not_exists(pk)"
	case c.Version() != 0:
		s = "v = :v"
		values = attributes{":v": number(c.Version())}
	default:
		return nil, nil
	}
	return &s, values
}
