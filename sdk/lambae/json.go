package lambae

import (
	"bytes"
	"encoding/json"
)

// encode is json.Marshal without the escaping of <, > and &, which would alter
// JSON that is only passing through.
func encode(v any) ([]byte, error) {
	var buffer bytes.Buffer
	encoder := json.NewEncoder(&buffer)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(buffer.Bytes(), []byte("\n")), nil
}

// quote is text as a JSON string. U+2028, U+2029 and U+0085 are escaped: some
// readers of lines take them for the end of one.
func quote(text string) json.RawMessage {
	raw, _ := encode(text) // encoding a string cannot fail
	return bytes.ReplaceAll(raw, []byte("\u0085"), []byte(`\u0085`))
}
