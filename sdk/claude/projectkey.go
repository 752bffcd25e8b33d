package claude

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"unicode/utf16"
)

// maxProjectKey is the longest project key without a hash, in UTF-16 units.
const maxProjectKey = 200

// ProjectKey names the folder that claude keeps the sessions of dir in: the
// path with everything but letters and digits as dashes, cut and made unique
// by a hash when it is long. Symbolic links are resolved first.
func ProjectKey(dir string) (string, error) {
	path, err := canonicalDir(dir)
	if err != nil {
		return "", err
	}
	return sanitizePath(path), nil
}

// canonicalDir is dir as claude sees it: absolute and without links. A folder
// that does not exist keeps the path it was given.
func canonicalDir(dir string) (string, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	if real, err := filepath.EvalSymlinks(abs); err == nil {
		abs = real
	}
	return abs, nil
}

func sanitizePath(path string) string {
	units := utf16.Encode([]rune(path))
	var key strings.Builder
	hash := int32(0)
	for i, u := range units {
		hash = hash*31 + int32(u)
		if i >= maxProjectKey {
			continue
		}
		if u >= 'a' && u <= 'z' || u >= 'A' && u <= 'Z' || u >= '0' && u <= '9' {
			key.WriteByte(byte(u))
		} else {
			key.WriteByte('-')
		}
	}
	if len(units) > maxProjectKey {
		key.WriteByte('-')
		key.WriteString(strconv.FormatInt(abs64(int64(hash)), 36))
	}
	return key.String()
}

func abs64(n int64) int64 {
	if n < 0 {
		return -n
	}
	return n
}

// isUUID reports whether s has the form of a UUID, in either case.
func isUUID(s string) bool {
	if len(s) != 36 {
		return false
	}
	for i := range len(s) {
		c := s[i]
		switch i {
		case 8, 13, 18, 23:
			if c != '-' {
				return false
			}
		default:
			if !(c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F') {
				return false
			}
		}
	}
	return true
}

// isRegular reports whether path is a regular file itself, not a link to one.
func isRegular(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.Mode().IsRegular()
}
