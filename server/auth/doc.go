// Package auth says who makes a call and what that caller may do.
//
// A caller shows a bearer token. The server knows only hashes of tokens, each
// with a name, roles, and patterns for the topics, client ids and shares that
// the roles extend to. Absent means nothing: a token without a pattern for
// shares joins no share.
//
// Tokens must be random and long, as NewToken makes them. A fast hash is then
// enough: there is nothing to guess, and a stolen file of hashes opens nothing.
package auth
