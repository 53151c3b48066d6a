package auth

import "context"

// Bearer sends a token with each call: a gRPC PerRPCCredentials.
type Bearer struct {
	// Token is sent.
	Token string
	// Plaintext allows it over connections without TLS. Whoever is on the way
	// can read and use it then: for loopback addresses.
	Plaintext bool
}

// GetRequestMetadata is the header.
func (b Bearer) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer " + b.Token}, nil
}

// RequireTransportSecurity tells whether TLS is needed.
func (b Bearer) RequireTransportSecurity() bool { return !b.Plaintext }
