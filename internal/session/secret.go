package session

import "crypto/subtle"

// KeyPrefixLength is how many characters of a key lists show.
const KeyPrefixLength = 8

// ShownPrefix is the part of a key that lists may show.
func ShownPrefix(secret string) string { return secret[:min(len(secret), KeyPrefixLength)] }

// SameHash compares two hashes of secrets in constant time.
func SameHash(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }
