package auth

import (
	"fmt"
	"strings"
)

// Role is something that a token may be used for; roles are combined with |.
type Role uint8

// The roles.
const (
	// RolePublish publishes to the token's topics.
	RolePublish Role = 1 << iota
	// RoleSubscribe subscribes to the token's topics, under its client ids and
	// in its shares.
	RoleSubscribe
	// RoleAdminRead sees topics, positions, clients, dead letters and metrics.
	RoleAdminRead
	// RoleAdmin also changes them. It includes RoleAdminRead, and neither
	// RolePublish nor RoleSubscribe.
	RoleAdmin
)

// roleNames in the order of the bits.
var roleNames = []string{"publish", "subscribe", "admin-read", "admin"}

// ParseRole reads the name of one role.
func ParseRole(name string) (Role, error) {
	for i, n := range roleNames {
		if n == name {
			return 1 << i, nil
		}
	}
	return 0, fmt.Errorf("role %q is unknown: choose of %s", name, strings.Join(roleNames, ", "))
}

// String names the roles with commas between them.
func (r Role) String() string {
	var names []string
	for i, n := range roleNames {
		if r&(1<<i) != 0 {
			names = append(names, n)
		}
	}
	return strings.Join(names, ",")
}

// has tells whether the role needed is among those of r, or included in them.
func (r Role) has(need Role) bool {
	if r&RoleAdmin != 0 {
		r |= RoleAdminRead
	}
	return r&need == need
}

// Grant is what a token allows. It is not changed once it is in use.
type Grant struct {
	// Name is the token's, for logs and for what callers are told. It is no
	// secret.
	Name string
	// Hash is that of the token.
	Hash Hash
	// Roles and what they extend to.
	Roles                   Role
	Topics, Clients, Shares Patterns
}

// Operator is a grant of everything that operators do, for the admin token.
func Operator(name string, h Hash) Grant {
	every, err := ParsePattern("*")
	if err != nil {
		panic(err) // * is a pattern
	}
	all := Patterns{every}
	return Grant{Name: name, Hash: h, Roles: RoleAdmin, Topics: all, Clients: all, Shares: all}
}
