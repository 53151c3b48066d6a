package auth

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// hashText is the hash of a token that is called name.
func hashText(name string) string { return HashOf(tokenOf(name)).String() }

// tokenOf is a token for a test: long enough, and not random.
func tokenOf(name string) string { return "token-for-a-test-called-" + name }

// entry is one token of a file.
func entry(name string, lines ...string) string {
	return "- name: " + name + "\n  sha256: " + hashText(name) + "\n  " + strings.Join(lines, "\n  ") + "\n"
}

func TestParse(t *testing.T) {
	grants, err := Parse([]byte("tokens:\n" +
		entry("a", "roles: [publish, subscribe]", `topics: ["orders*"]`, "clients: [c1, c2]", `shares: ["", s]`) +
		entry("b", "roles: [admin-read]", `topics: ["*"]`)))
	if err != nil {
		t.Fatal(err)
	}
	a, b := grants[0], grants[1]
	if a.Name != "a" || a.Hash != HashOf(tokenOf("a")) || a.Roles != RolePublish|RoleSubscribe || a.Roles.String() != "publish,subscribe" {
		t.Errorf("a is %+v", a)
	}
	if !a.Topics.Match("orders_DLQ") || a.Topics.Match("o") || !a.Clients.Match("c2") || !a.Shares.Match("") || !a.Shares.Match("s") || a.Shares.Match("x") {
		t.Errorf("a's patterns are %+v", a)
	}
	if b.Roles != RoleAdminRead || len(b.Clients) != 0 || b.Shares.Match("") {
		t.Errorf("b is %+v", b)
	}
}

func TestParseJSON(t *testing.T) {
	grants, err := Parse([]byte(`{"tokens": [{"name": "a", "sha256": "` + hashText("a") + `", "roles": ["publish"], "topics": ["t"]}]}`))
	if err != nil || len(grants) != 1 || !grants[0].Topics.Match("t") {
		t.Errorf("%+v, %v", grants, err)
	}
}

func TestParseErrors(t *testing.T) {
	good := `topics: ["*"]`
	tests := []struct{ name, text, want string }{
		{"empty", "", "no tokens"},
		{"no tokens", "tokens: []", "no tokens"},
		{"no YAML", "tokens: [", "line 1"},
		{"unknown member", "token: []", "token not found"},
		{"misspelt restriction", "tokens:\n" + entry("a", "roles: [publish]", good, "topic: [x]"), "topic not found"},
		{"two documents", "tokens:\n" + entry("a", "roles: [publish]", good) + "---\ntokens: []\n", "more than one document"},
		{"no name", "tokens:\n" + strings.Replace(entry("a", "roles: [publish]", good), "name: a", "name: ''", 1), "name: give one"},
		{"no hash", "tokens:\n- name: a\n  roles: [publish]\n  " + good, "sha256: it is no SHA-256"},
		{"a token for its hash", "tokens:\n- name: a\n  sha256: " + tokenOf("a") + "\n  roles: [publish]\n  " + good, "sha256: it is no SHA-256"},
		{"unknown role", "tokens:\n" + entry("a", "roles: [root]", good), `role "root" is unknown: choose of publish, subscribe, admin-read, admin`},
		{"no role", "tokens:\n" + entry("a", good), "roles: it has none"},
		{"no topic", "tokens:\n" + entry("a", "roles: [publish]"), "topics: it has no pattern"},
		{"no client", "tokens:\n" + entry("a", "roles: [subscribe]", good), "clients: it has no pattern"},
		{"bad pattern", "tokens:\n" + entry("a", "roles: [publish]", `topics: ['a\b']`), `topics: pattern "a\\b"`},
		{"same name", "tokens:\n" + entry("a", "roles: [publish]", good) + strings.Replace(entry("b", "roles: [publish]", good), "name: b", "name: a", 1), "another token has this name"},
		{"same token", "tokens:\n" + entry("a", "roles: [publish]", good) + strings.Replace(entry("a", "roles: [publish]", good), "name: a", "name: b", 1), `token "a" has the same`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Parse([]byte(tt.text))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q in it", err, tt.want)
			}
		})
	}
}

func TestReadFileNamesIt(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens.yaml")
	if _, err := ReadFile(path); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("missing: %v", err)
	}
	if err := os.WriteFile(path, []byte("tokens: 3"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadFile(path); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("damaged: %v", err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("tokens:\n" + entry("a", "roles: [publish]", `topics: ["*"]`)))
	f.Add([]byte(`{"tokens":[]}`))
	f.Add([]byte("a: &a [*a]"))
	f.Fuzz(func(t *testing.T, text []byte) {
		grants, err := Parse(text)
		if err != nil {
			return
		}
		for _, g := range grants {
			if g.Roles == 0 || g.Name == "" || g.Hash == (Hash{}) {
				t.Errorf("taken: %+v", g)
			}
		}
	})
}
