package remoting

import (
	"crypto/hmac"
	"crypto/sha1" //nolint:gosec // the protocol's own choice
	"encoding/base64"
	"maps"
	"slices"
)

// Credentials sign requests for brokers with access control lists.
type Credentials struct {
	// AccessKey names the user, SecretKey is the shared secret.
	AccessKey, SecretKey string
	// SecurityToken is for temporary credentials; mostly empty.
	SecurityToken string
}

// Names of the fields of a signature.
const (
	fieldAccessKey     = "AccessKey"
	fieldSecurityToken = "SecurityToken"
	fieldSignature     = "Signature"
)

// Sign adds user and signature to the fields of a command: HMAC-SHA1 over the
// values of all fields in order of their names, and the body.
func (c Credentials) Sign(cmd *Command) {
	if cmd.Fields == nil {
		cmd.Fields = map[string]string{}
	}
	cmd.Fields[fieldAccessKey] = c.AccessKey
	if c.SecurityToken != "" {
		cmd.Fields[fieldSecurityToken] = c.SecurityToken
	}
	delete(cmd.Fields, fieldSignature)
	cmd.Fields[fieldSignature] = c.signature(cmd)
}

// Verify tells whether a command carries this user's signature.
func (c Credentials) Verify(cmd *Command) bool {
	given, ok := cmd.Fields[fieldSignature]
	return ok && cmd.Fields[fieldAccessKey] == c.AccessKey && hmac.Equal([]byte(given), []byte(c.signature(cmd)))
}

func (c Credentials) signature(cmd *Command) string {
	mac := hmac.New(sha1.New, []byte(c.SecretKey))
	for _, name := range slices.Sorted(maps.Keys(cmd.Fields)) {
		if name != fieldSignature {
			mac.Write([]byte(cmd.Fields[name])) // a hash takes everything
		}
	}
	mac.Write(cmd.Body)
	return base64.StdEncoding.EncodeToString(mac.Sum(nil))
}
