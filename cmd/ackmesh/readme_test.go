package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestC24_ReadmeStatesGuarantees: what survives which crash, and the switch, must
// be told where users look first.
func TestC24_ReadmeStatesGuarantees(t *testing.T) {
	text := readme(t)
	_, section, ok := strings.Cut(text, "\n## What is guaranteed\n")
	if !ok {
		t.Fatal("README.md has no section on what is guaranteed")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	for _, word := range []string{"kill -9", "power loss", "`sync=true`", "`sync=false`", "DURABLE"} {
		if !strings.Contains(section, word) {
			t.Errorf("the section does not speak of %q", word)
		}
	}
}

// TestReadmeLinks checks that what README.md links to in the repository exists.
func TestReadmeLinks(t *testing.T) {
	links := regexp.MustCompile(`\]\(([^):#]+)`).FindAllStringSubmatch(readme(t), -1)
	for _, link := range links {
		if _, err := os.Stat(filepath.Join("..", "..", link[1])); err != nil {
			t.Errorf("%s: %v", link[1], err)
		}
	}
	if len(links) < 5 {
		t.Errorf("found %d links only", len(links))
	}
}

func readme(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
