package admin

import "encoding/json"

// sent is embedded in what the server sends.
type sent struct{ raw json.RawMessage }

// Raw is the JSON this was read from, with members this release does not know and
// times as the server writes them; nil for a value made by hand.
func (s sent) Raw() json.RawMessage { return s.raw }

func (s *sent) keep(raw json.RawMessage) { s.raw = raw }

// decode reads a T and lets it keep the JSON it came from.
func decode[T any](raw json.RawMessage) (*T, error) {
	v := new(T)
	if err := json.Unmarshal(raw, v); err != nil {
		return nil, err
	}
	if k, ok := any(v).(interface{ keep(json.RawMessage) }); ok {
		k.keep(raw)
	}
	return v, nil
}
