package auth

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
)

// tokenPrefix makes a token recognisable to programs that look for secrets
// where none should be.
const tokenPrefix = "ackmesh_"

// MinToken and MaxToken bound the bytes of a token.
const (
	MinToken = 20
	MaxToken = 4096
)

// Hash is the SHA-256 of a token.
type Hash [sha256.Size]byte

// NewToken makes a token with 256 bits of randomness.
func NewToken() string {
	var secret [32]byte
	_, _ = rand.Read(secret[:]) // never fails: it ends the process instead
	return tokenPrefix + base64.RawURLEncoding.EncodeToString(secret[:])
}

// HashOf hashes a token.
func HashOf(token string) Hash { return sha256.Sum256([]byte(token)) }

// String is the hash in hexadecimal digits, as tokens files have it.
func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// ParseHash reads 64 hexadecimal digits.
func ParseHash(text string) (h Hash, err error) {
	raw, err := hex.DecodeString(text)
	if err != nil || len(raw) != len(h) {
		return h, errors.New("it is no SHA-256: 64 hexadecimal digits, as of sha256sum")
	}
	copy(h[:], raw)
	return h, nil
}

// CheckToken says what is wrong with a token that someone chose.
func CheckToken(token string) error {
	if len(token) < MinToken || len(token) > MaxToken {
		return fmt.Errorf("it has %d characters: a token has %d to %d, all of them random", len(token), MinToken, MaxToken)
	}
	for i := range len(token) {
		if token[i] <= ' ' || token[i] > '~' {
			return errors.New("it has spaces, or other than ASCII characters")
		}
	}
	return nil
}
