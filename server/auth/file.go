package auth

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Bounds of a tokens file.
const (
	maxFile   = 8 << 20
	maxTokens = 10_000
)

// fileForm is a tokens file: YAML, or JSON, which is YAML too.
type fileForm struct {
	Tokens []tokenForm `yaml:"tokens"`
}

type tokenForm struct {
	Name    string   `yaml:"name"`
	SHA256  string   `yaml:"sha256"`
	Roles   []string `yaml:"roles"`
	Topics  []string `yaml:"topics"`
	Clients []string `yaml:"clients"`
	Shares  []string `yaml:"shares"`
}

// ReadFile reads a tokens file. Errors name the file and all that is wrong.
func ReadFile(path string) ([]Grant, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("tokens file: %w", err)
	}
	defer func() { _ = f.Close() }() // it was only read
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("tokens file %s: %w", path, err)
	}
	grants, err := Parse(text)
	if err != nil {
		return nil, fmt.Errorf("tokens file %s: %w", path, err)
	}
	return grants, nil
}

// Parse reads the text of a tokens file. Names that it does not know are errors:
// a misspelt restriction must not be one that is left out.
func Parse(text []byte) ([]Grant, error) {
	if len(text) > maxFile {
		return nil, fmt.Errorf("it has more than %d bytes", maxFile)
	}
	var form fileForm
	dec := yaml.NewDecoder(bytes.NewReader(text))
	dec.KnownFields(true)
	if err := dec.Decode(&form); err != nil && !errors.Is(err, io.EOF) {
		return nil, errors.New(readable.Replace(err.Error()))
	}
	if err := dec.Decode(new(any)); !errors.Is(err, io.EOF) {
		return nil, errors.New("it has more than one document")
	}
	return form.grants()
}

// readable puts words for people in place of types of ours.
var readable = strings.NewReplacer("auth.fileForm", "a tokens file", "[]auth.tokenForm", "a list of tokens", "auth.tokenForm", "a token")

func (f fileForm) grants() ([]Grant, error) {
	switch n := len(f.Tokens); {
	case n == 0:
		return nil, errors.New("it has no tokens: nobody could do anything")
	case n > maxTokens:
		return nil, fmt.Errorf("it has %d tokens, at most %d are allowed", n, maxTokens)
	}
	var errs []error
	names, hashes := map[string]bool{}, map[Hash]string{}
	grants := make([]Grant, 0, len(f.Tokens))
	for i, t := range f.Tokens {
		g, err := t.grant()
		if err == nil {
			err = once(g, names, hashes)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("token %d (%q): %w", i+1, t.Name, err))
			continue
		}
		grants = append(grants, g)
	}
	return grants, errors.Join(errs...)
}

// once refuses a name or a hash that another token has.
func once(g Grant, names map[string]bool, hashes map[Hash]string) error {
	if names[g.Name] {
		return errors.New("another token has this name")
	}
	if other, ok := hashes[g.Hash]; ok {
		return fmt.Errorf("sha256: token %q has the same", other)
	}
	names[g.Name], hashes[g.Hash] = true, g.Name
	return nil
}

func (t tokenForm) grant() (g Grant, err error) {
	if err := checkTokenName(t.Name); err != nil {
		return g, err
	}
	g.Name = t.Name
	if g.Hash, err = ParseHash(t.SHA256); err != nil {
		return g, fmt.Errorf("sha256: %w", err)
	}
	for _, name := range t.Roles {
		r, err := ParseRole(name)
		if err != nil {
			return g, fmt.Errorf("roles: %w", err)
		}
		g.Roles |= r
	}
	for _, list := range []struct {
		key   string
		texts []string
		to    *Patterns
	}{{"topics", t.Topics, &g.Topics}, {"clients", t.Clients, &g.Clients}, {"shares", t.Shares, &g.Shares}} {
		if *list.to, err = parsePatterns(list.texts); err != nil {
			return g, fmt.Errorf("%s: %w", list.key, err)
		}
	}
	return g, g.useful()
}

func checkTokenName(name string) error {
	if name == "" || len(name) > 255 {
		return errors.New("name: give one of 1 to 255 characters")
	}
	for _, c := range name {
		if c < ' ' || c == 0x7f {
			return errors.New("name: it has control characters")
		}
	}
	return nil
}

func parsePatterns(texts []string) (Patterns, error) {
	var list Patterns
	for _, text := range texts {
		p, err := ParsePattern(text)
		if err != nil {
			return nil, fmt.Errorf("pattern %q: %w", text, err)
		}
		list = append(list, p)
	}
	return list, nil
}

// useful refuses a grant with which nothing can be done: what is missing was
// forgotten, most likely.
func (g Grant) useful() error {
	switch {
	case g.Roles == 0:
		return errors.New("roles: it has none")
	case len(g.Topics) == 0:
		return errors.New(`topics: it has no pattern, so its roles extend to no topic ("*" is all)`)
	case g.Roles&RoleSubscribe != 0 && len(g.Clients) == 0:
		return errors.New(`clients: it has no pattern, so it could subscribe as no client ("*" is any)`)
	}
	return nil
}
