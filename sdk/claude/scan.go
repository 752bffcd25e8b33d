package claude

import (
	"bytes"

	"github.com/tidwall/gjson"
)

// eachMember calls f with the members of the JSON object that line holds, as
// slices of it. It reads structure, not content: what stands inside a member
// is checked by whoever decodes it. That is what lets messages stream by at
// the speed of a search for quotes. ok is false when line is not an object.
func eachMember(line []byte, f func(name, value []byte)) (ok bool) {
	i := skipSpace(line, 0)
	if i == len(line) || line[i] != '{' {
		return false
	}
	i = skipSpace(line, i+1)
	for i < len(line) && line[i] == '"' {
		nameEnd := skipString(line, i)
		if nameEnd < 0 {
			return false
		}
		colon := skipSpace(line, nameEnd)
		if colon == len(line) || line[colon] != ':' {
			return false
		}
		start := skipSpace(line, colon+1)
		end := skipValue(line, start)
		if end <= start {
			return false
		}
		f(line[i+1:nameEnd-1], line[start:end])
		i = skipSpace(line, end)
		if i < len(line) && line[i] == ',' {
			if i = skipSpace(line, i+1); i == len(line) || line[i] != '"' {
				return false
			}
			continue
		}
		break
	}
	return i < len(line) && line[i] == '}' && skipSpace(line, i+1) == len(line)
}

func skipSpace(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\t' || b[i] == '\r' || b[i] == '\n') {
		i++
	}
	return i
}

// skipString returns the index behind the string that starts at i, -1 if it
// does not end.
func skipString(b []byte, i int) int {
	for from := i + 1; ; {
		n := bytes.IndexByte(b[from:], '"')
		if n < 0 {
			return -1
		}
		quote := from + n
		escapes := 0
		for p := quote - 1; p > i && b[p] == '\\'; p-- {
			escapes++
		}
		if escapes%2 == 0 {
			return quote + 1
		}
		from = quote + 1
	}
}

// skipValue returns the index behind the value that starts at i, -1 if it does
// not end.
func skipValue(b []byte, i int) int {
	if i == len(b) {
		return -1
	}
	switch b[i] {
	case '"':
		return skipString(b, i)
	case '{', '[':
	default:
		for i < len(b) && b[i] != ',' && b[i] != '}' && b[i] != ']' && b[i] != ' ' {
			i++
		}
		return i
	}
	for depth := 0; i < len(b); i++ {
		switch b[i] {
		case '"':
			if i = skipString(b, i); i < 0 {
				return -1
			}
			i--
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1
			}
		}
	}
	return -1
}

// unquote returns the text of a JSON string, "" for any other value.
func unquote(value []byte) string {
	if len(value) < 2 || value[0] != '"' {
		return ""
	}
	if bytes.IndexByte(value, '\\') < 0 {
		return string(value[1 : len(value)-1])
	}
	return gjson.ParseBytes(value).Str
}
