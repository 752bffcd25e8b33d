package session

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"time"
)

// Prefixes of ids (protocol, "Ids, keys, times"): the prefix and 32 hex characters.
const (
	SessionPrefix  = "ses_"
	EventPrefix    = "evt_"
	KeyPrefix      = "key_"
	ProfilePrefix  = "pro_"
	SubagentPrefix = "sba_"
	SandboxPrefix  = "sbx_"
)

// Prefixes of secrets: the prefix and 48 hex characters.
const (
	ClientSecretPrefix  = "bae_"
	SessionSecretPrefix = "bae_ses_"
	AdminSecretPrefix   = "bae_admin_"
)

// NewID returns prefix and 32 random hex characters.
func NewID(prefix string) string { return prefix + randomHex(16) }

// NewSecret returns prefix and 48 random hex characters: 192 bits from the
// operating system, which need no slow hash at rest.
func NewSecret(prefix string) string { return prefix + randomHex(24) }

// IsID reports whether s has the form [NewID] gives.
func IsID(prefix, s string) bool { return isHex(prefix, s, 32) }

// IsSecret reports whether s has the form [NewSecret] gives.
func IsSecret(prefix, s string) bool { return isHex(prefix, s, 48) }

// HashSecret is what is kept of a secret at rest: hex of its SHA-256.
func HashSecret(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

// TimeFormat is RFC 3339 in UTC with exactly three fractional digits.
const TimeFormat = "2006-01-02T15:04:05.000Z"

// FormatTime writes t as the wire shows times.
func FormatTime(t time.Time) string { return t.UTC().Format(TimeFormat) }

func randomHex(n int) string {
	b := make([]byte, n)
	rand.Read(b) // never fails: crypto/rand ends the process instead
	return hex.EncodeToString(b)
}

func isHex(prefix, s string, digits int) bool {
	rest, ok := strings.CutPrefix(s, prefix)
	if !ok || len(rest) != digits {
		return false
	}
	for _, c := range []byte(rest) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}
