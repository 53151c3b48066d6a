package auth

import (
	"context"
	"crypto/subtle"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// keep opens a file of the given entries.
func keep(t *testing.T, entries ...string) (k *Keeper, path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "tokens.yaml")
	write(t, path, entries...)
	k, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	return k, path
}

func write(t *testing.T, path string, entries ...string) {
	t.Helper()
	if err := os.WriteFile(path, []byte("tokens:\n"+strings.Join(entries, "")), 0o600); err != nil {
		t.Fatal(err)
	}
}

// caller is who shows the token called name.
func caller(t *testing.T, k *Keeper, name string) *Caller {
	t.Helper()
	c, err := k.Authenticate(showing("Bearer " + tokenOf(name)))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func showing(values ...string) context.Context {
	return metadata.NewIncomingContext(context.Background(), metadata.MD{"authorization": values})
}

func publisher(name string, topics string) string {
	return entry(name, "roles: [publish]", "topics: "+topics)
}

func TestAuthenticate(t *testing.T) {
	k, _ := keep(t, publisher("a", "[t]"))
	for _, header := range []string{"Bearer " + tokenOf("a"), "bearer  " + tokenOf("a") + " "} {
		if c, err := k.Authenticate(showing(header)); err != nil || c.Name() != "a" {
			t.Errorf("%q: %v", header, err)
		}
	}
	tests := []struct {
		ctx    context.Context
		reason string
	}{
		{context.Background(), ReasonNoToken},
		{showing(), ReasonNoToken},
		{showing(""), ReasonNoToken},
		{showing("Bearer"), ReasonNoToken},
		{showing("Bearer "), ReasonNoToken},
		{showing("Basic " + tokenOf("a")), ReasonNoToken},
		{showing(tokenOf("a")), ReasonNoToken},
		{showing("Bearer "+tokenOf("a"), "Bearer "+tokenOf("a")), ReasonNoToken},
		{showing("Bearer " + tokenOf("b")), ReasonUnknown},
		{showing("Bearer " + tokenOf("a") + "x"), ReasonUnknown},
		{showing("Bearer " + hashText("a")), ReasonUnknown},
		{showing("Bearer " + strings.Repeat("x", MaxToken+1)), ReasonUnknown},
	}
	for i, tt := range tests {
		_, err := k.Authenticate(tt.ctx)
		wantError(t, err, codes.Unauthenticated, tt.reason)
		if t.Failed() {
			t.Fatalf("case %d", i)
		}
	}
}

// wantError checks the code and the reason of an error.
func wantError(t *testing.T, err error, code codes.Code, reason string) {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) || status.Code(err) != code || e.Reason != reason {
		t.Errorf("got %v, want %v for %s", err, code, reason)
	}
}

// TestConstantTime: whatever is shown, one hash is compared as a whole, and none
// is left out because it is not the right one.
func TestConstantTime(t *testing.T) {
	var grants []Grant
	for _, name := range []string{"a", "b", "c"} {
		grants = append(grants, Operator(name, HashOf(tokenOf(name))))
	}
	near := HashOf(tokenOf("a")) // differs from a known one in its last bit
	near[len(near)-1] ^= 1
	far := near
	far[0] ^= 0x80
	s := newSet(grants)
	for _, h := range []Hash{HashOf(tokenOf("a")), HashOf(tokenOf("c")), near, far, {}} {
		compared := 0
		s.equals = func(a, b []byte) int {
			if len(a) != len(h) || len(b) != len(h) {
				t.Errorf("%d and %d bytes are compared", len(a), len(b))
			}
			compared++
			return subtle.ConstantTimeCompare(a, b)
		}
		_, ok := s.find(h)
		if known := h == HashOf(tokenOf("a")) || h == HashOf(tokenOf("c")); ok != known || compared != 1 {
			t.Errorf("%v: found %v, %d comparisons", h, ok, compared)
		}
	}
	if got, want := newSet(grants).salt, s.salt; got == want {
		t.Error("two sets look tokens up alike")
	}
}

// TestFoundUnderForeignKey: a look-up that leads to a wrong grant finds nothing.
func TestFoundUnderForeignKey(t *testing.T) {
	a, b := Operator("a", HashOf("a")), Operator("b", HashOf("b"))
	s := newSet(nil)
	s.byKey[s.key(b.Hash)] = &a
	if g, ok := s.find(b.Hash); ok {
		t.Errorf("found %v", g.Name)
	}
}

func TestReload(t *testing.T) {
	k, path := keep(t, publisher("a", "[t]"), publisher("b", "[t]"))
	a, b := caller(t, k, "a"), caller(t, k, "b")
	changed := k.Changed()

	write(t, path, "- name: broken\n")
	if err := k.Reload(); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("a bad file: %v", err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := k.Reload(); err == nil {
		t.Error("a missing file is taken")
	}
	select {
	case <-changed:
		t.Error("a change is told though nothing has")
	default:
	}
	if err := a.Publish("t"); err != nil {
		t.Errorf("after bad files: %v", err)
	}

	write(t, path, publisher("a", "[u]"), publisher("c", "[t]"))
	if err := k.Reload(); err != nil {
		t.Fatal(err)
	}
	<-changed
	wantError(t, a.Publish("t"), codes.PermissionDenied, ReasonPattern)
	if err := a.Publish("u"); err != nil {
		t.Error(err)
	}
	wantError(t, b.Publish("t"), codes.Unauthenticated, ReasonUnknown)
	if _, err := k.Authenticate(showing("Bearer " + tokenOf("b"))); err == nil {
		t.Error("a token that was taken away is known still")
	}
	if err := caller(t, k, "c").Publish("t"); err != nil {
		t.Error(err)
	}
}

// TestFixedGrants are in force beside the file, and without one.
func TestFixedGrants(t *testing.T) {
	k, err := Open("", Operator("op", HashOf(tokenOf("op"))))
	if err != nil {
		t.Fatal(err)
	}
	if k.HasFile() {
		t.Error("there is no file")
	}
	c := caller(t, k, "op")
	if err := c.Role(RoleAdmin); err != nil {
		t.Error(err)
	}
	if err := c.Role(RoleAdminRead); err != nil {
		t.Error(err)
	}
	wantError(t, c.Publish("t"), codes.PermissionDenied, ReasonRole)
	if err := k.Reload(); err != nil {
		t.Error(err)
	}
	if err := c.Role(RoleAdmin); err != nil {
		t.Error(err)
	}
}

func BenchmarkFind(b *testing.B) {
	var grants []Grant
	for i := range 1000 {
		grants = append(grants, Operator("", HashOf(strings.Repeat("x", i+20))))
	}
	k, err := Open("", grants...)
	if err != nil {
		b.Fatal(err)
	}
	token := strings.Repeat("x", 60)
	for b.Loop() {
		if _, ok := k.Find(token); !ok {
			b.Fatal("not found")
		}
	}
}

func BenchmarkPublishCheck(b *testing.B) {
	p, _ := ParsePattern("orders.*")
	g := Grant{Name: "a", Hash: HashOf(tokenOf("a")), Roles: RolePublish, Topics: Patterns{p}}
	k, err := Open("", g)
	if err != nil {
		b.Fatal(err)
	}
	c, err := k.Authenticate(showing("Bearer " + tokenOf("a")))
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if err := c.Publish("orders.eu"); err != nil {
			b.Fatal(err)
		}
	}
}
