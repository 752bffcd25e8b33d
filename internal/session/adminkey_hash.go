package session

import (
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/crypto/argon2"
)

const sha256Scheme = "sha256:"

// AdminKeyHash is the hash of an admin key in one of the two forms it may be
// provisioned in.
type AdminKeyHash struct {
	text string
	// The SHA-256 in hex, or else the Argon2id parameters.
	sha256              string
	salt, sum           []byte
	memory, time, lanes uint32
}

// ParseAdminKeyHash reads "sha256:" and 64 hex characters, or an Argon2id PHC
// string, "$argon2id$v=19$m=<KiB>,t=<passes>,p=<lanes>$<salt>$<hash>". Admin keys
// hold 192 random bits, so the fast form is as safe at rest as the slow one.
func ParseAdminKeyHash(s string) (AdminKeyHash, error) {
	if digest, ok := strings.CutPrefix(s, sha256Scheme); ok {
		if b, err := hex.DecodeString(digest); err != nil || len(b) != 32 {
			return AdminKeyHash{}, errors.New(`an admin key hash "sha256:…" needs 64 hex characters`)
		}
		return AdminKeyHash{text: s, sha256: strings.ToLower(digest)}, nil
	}
	h, err := parseArgon2id(s)
	if err != nil {
		return AdminKeyHash{}, fmt.Errorf(`the admin key hash is neither "sha256:<hex>" nor an Argon2id PHC string: %w`, err)
	}
	return h, nil
}

// String returns the form that was parsed.
func (h AdminKeyHash) String() string { return h.text }

// Slow reports whether a check costs noticeable time and memory.
func (h AdminKeyHash) Slow() bool { return h.sha256 == "" }

// Matches reports whether this is the hash of secret.
func (h AdminKeyHash) Matches(secret string) bool {
	if !h.Slow() {
		return SameHash(h.sha256, HashSecret(secret))
	}
	sum := argon2.IDKey([]byte(secret), h.salt, h.time, h.memory, uint8(h.lanes), uint32(len(h.sum)))
	return subtle.ConstantTimeCompare(sum, h.sum) == 1
}

// Bounds of the parameters: what a check may cost must be bounded, whatever a
// file says, and a hash must be one.
const (
	maxArgonMemory = 1 << 20 // KiB, so 1 GiB
	maxArgonTime   = 64
	minArgonBytes  = 8
	maxArgonBytes  = 1024
)

func parseArgon2id(s string) (AdminKeyHash, error) {
	parts := strings.Split(s, "$")
	if len(parts) != 6 || parts[0] != "" || parts[1] != "argon2id" {
		return AdminKeyHash{}, errors.New("it must look like $argon2id$v=19$m=…,t=…,p=…$salt$hash")
	}
	if parts[2] != fmt.Sprintf("v=%d", argon2.Version) {
		return AdminKeyHash{}, fmt.Errorf("version %q is not supported, only v=%d", parts[2], argon2.Version)
	}
	h := AdminKeyHash{text: s}
	var rest string
	if n, _ := fmt.Sscanf(parts[3]+" .", "m=%d,t=%d,p=%d %s", &h.memory, &h.time, &h.lanes, &rest); n != 4 {
		return AdminKeyHash{}, fmt.Errorf("parameters %q must be m=…,t=…,p=…", parts[3])
	}
	if h.time < 1 || h.time > maxArgonTime || h.lanes < 1 || h.lanes > 255 || h.memory < 8*h.lanes || h.memory > maxArgonMemory {
		return AdminKeyHash{}, fmt.Errorf("parameters %q are out of bounds: m from 8·p to %d, t from 1 to %d, p from 1 to 255",
			parts[3], maxArgonMemory, maxArgonTime)
	}
	var err error
	if h.salt, err = argonBytes("salt", parts[4]); err != nil {
		return AdminKeyHash{}, err
	}
	h.sum, err = argonBytes("hash", parts[5])
	return h, err
}

func argonBytes(what, s string) ([]byte, error) {
	b, err := base64.RawStdEncoding.Strict().DecodeString(s)
	if err != nil {
		return nil, fmt.Errorf("its %s is not base64 without padding: %w", what, err)
	}
	if len(b) < minArgonBytes || len(b) > maxArgonBytes {
		return nil, fmt.Errorf("its %s has %d bytes; it needs %d to %d", what, len(b), minArgonBytes, maxArgonBytes)
	}
	return b, nil
}
