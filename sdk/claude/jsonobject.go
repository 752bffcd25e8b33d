package claude

import (
	"encoding/json"
	"slices"

	"github.com/tidwall/gjson"
)

// jsonObject is a JSON object whose members keep their order and their bytes:
// transcripts are rewritten in places, and everything else in them must stay
// as it is.
type jsonObject []jsonMember

type jsonMember struct {
	name  string
	value json.RawMessage
}

// parseObject takes an object apart; ok is false for any other JSON value.
func parseObject(raw []byte) (o jsonObject, ok bool) {
	root := gjson.ParseBytes(raw)
	if !root.IsObject() {
		return nil, false
	}
	root.ForEach(func(name, value gjson.Result) bool {
		o = append(o, jsonMember{name.String(), json.RawMessage(value.Raw)})
		return true
	})
	return o, true
}

func (o jsonObject) index(name string) int {
	return slices.IndexFunc(o, func(m jsonMember) bool { return m.name == name })
}

// get returns a member's value, nil if there is none.
func (o jsonObject) get(name string) json.RawMessage {
	if i := o.index(name); i >= 0 {
		return o[i].value
	}
	return nil
}

func (o jsonObject) text(name string) string { return gjson.ParseBytes(o.get(name)).String() }

// set gives a member a value, in its old place or at the end.
func (o *jsonObject) set(name string, value any) {
	raw, ok := value.(json.RawMessage)
	if !ok {
		raw, _ = json.Marshal(value) // strings, nil and maps of them
	}
	if i := o.index(name); i >= 0 {
		(*o)[i].value = raw
		return
	}
	*o = append(*o, jsonMember{name, raw})
}

func (o *jsonObject) delete(names ...string) {
	*o = slices.DeleteFunc(*o, func(m jsonMember) bool { return slices.Contains(names, m.name) })
}

func (o jsonObject) encode() json.RawMessage {
	out := []byte{'{'}
	for i, m := range o {
		if i > 0 {
			out = append(out, ',')
		}
		name, _ := json.Marshal(m.name)
		out = append(append(append(out, name...), ':'), m.value...)
	}
	return append(out, '}')
}
