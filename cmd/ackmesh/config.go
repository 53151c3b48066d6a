package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"github.com/ackmesh/ackmesh/server"
)

// envPrefix begins the names of environment variables that are settings.
const envPrefix = "ACKMESH_"

// Environment variables that are no settings of the server.
const (
	envConfig = envPrefix + "CONFIG" // the file, as --config
	envServer = envPrefix + "SERVER" // as --server of the other commands
	envAdmin  = envPrefix + "ADMIN"  // as --admin of the other commands

	envToken      = envPrefix + "TOKEN"       // as --token of publish and subscribe
	envAdminToken = envPrefix + "ADMIN_TOKEN" // as --token of operators' commands
	envCA         = envPrefix + "CA"          // as --tls-ca of the other commands
)

var otherEnv = []string{envConfig, envServer, envAdmin, envToken, envAdminToken, envCA}

// layer is one source of settings.
type layer []entry

// entry is one value of a source.
type entry struct {
	// from says where it stands: "mesh.yaml:3: topics.partitions".
	from string
	// key is the setting, text its value.
	key, text string
}

// applyTo changes what the layer sets.
func (l layer) applyTo(c *server.Config) error {
	byKey := make(map[string]setting)
	for _, s := range settings(c) {
		byKey[s.key] = s
	}
	var errs []error
	for _, e := range l {
		if err := byKey[e.key].set(e.text); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", e.from, err))
		}
	}
	return errors.Join(errs...)
}

// loadConfig puts the settings together: flags before environment before file
// before defaults. path may be empty: no file. Errors name everything that is
// wrong and where it stands.
func loadConfig(path string, environ []string, flags *pflag.FlagSet) (server.Config, error) {
	c := server.Defaults()
	file, fileErr := fileLayer(path)
	env, envErr := envLayer(environ)
	err := errors.Join(fileErr, envErr, file.applyTo(&c), env.applyTo(&c), flagLayer(flags).applyTo(&c))
	if err != nil {
		return c, usageError{err}
	}
	if err := c.Validate(); err != nil {
		return c, usageError{err}
	}
	return c, nil
}

// allKeys returns the names of all settings.
func allKeys() []string {
	var c server.Config
	var keys []string
	for _, s := range settings(&c) {
		keys = append(keys, s.key)
	}
	return keys
}

// flagLayer is what was given on the command line.
func flagLayer(flags *pflag.FlagSet) layer {
	var l layer
	keys := allKeys()
	flags.Visit(func(f *pflag.Flag) {
		if slices.Contains(keys, f.Name) {
			l = append(l, entry{"flag --" + f.Name, f.Name, f.Value.String()})
		}
	})
	return l
}

// envName returns the environment variable of a setting.
func envName(key string) string {
	return envPrefix + strings.ToUpper(strings.NewReplacer(".", "_", "-", "_").Replace(key))
}

// envLayer is what the environment sets. Variables with our prefix that are no
// setting are errors.
func envLayer(environ []string) (layer, error) {
	names, byName := []string{envConfig}, make(map[string]string)
	for _, key := range allKeys() {
		names = append(names, envName(key))
		byName[envName(key)] = key
	}
	var l layer
	var errs []error
	for _, assignment := range environ {
		name, text, _ := strings.Cut(assignment, "=")
		if !strings.HasPrefix(name, envPrefix) || slices.Contains(otherEnv, name) {
			continue
		}
		key, ok := byName[name]
		if !ok {
			errs = append(errs, fmt.Errorf("environment variable %s is no setting%s", name, didYouMean(nearest(name, names))))
			continue
		}
		l = append(l, entry{"environment variable " + name, key, text})
	}
	return l, errors.Join(errs...)
}

// fileLayer is what a YAML file sets. Its keys may be nested or joined by dots.
func fileLayer(path string) (layer, error) {
	if path == "" {
		return nil, nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("settings file: %w", err)
	}
	var doc yaml.Node
	dec := yaml.NewDecoder(bytes.NewReader(text))
	if err := dec.Decode(&doc); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("settings file %s: %w", path, err)
	}
	if err := dec.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) { // what it sets would be left out
		return nil, fmt.Errorf("settings file %s: it has more than one document", path)
	}
	if doc.Kind == 0 { // nothing but comments
		return nil, nil
	}
	f := yamlFile{path: path, keys: allKeys(), seen: make(map[string]int)}
	f.mapping("", doc.Content[0])
	return f.layer, errors.Join(f.errs...)
}

// yamlFile collects the settings of a file.
type yamlFile struct {
	path  string
	keys  []string
	seen  map[string]int // the line of each setting
	layer layer
	errs  []error
}

func (f *yamlFile) fail(line int, format string, args ...any) {
	f.errs = append(f.errs, fmt.Errorf("%s:%d: "+format, append([]any{f.path, line}, args...)...))
}

// mapping takes the members of a mapping whose names begin with prefix.
func (f *yamlFile) mapping(prefix string, n *yaml.Node) {
	if n.Kind != yaml.MappingNode {
		f.fail(n.Line, "settings are written as NAME: VALUE")
		return
	}
	for i := 0; i < len(n.Content); i += 2 {
		name, value := n.Content[i], n.Content[i+1]
		f.member(prefix+name.Value, name.Line, value)
	}
}

func (f *yamlFile) member(key string, line int, value *yaml.Node) {
	switch {
	case slices.Contains(f.keys, key):
		f.setting(key, line, value)
	case !f.isGroup(key):
		f.fail(line, "%s is no setting%s", key, didYouMean(nearest(key, f.keys)))
	case value.Kind == yaml.MappingNode:
		f.mapping(key+".", value)
	case value.Tag == "!!null": // a group with everything commented out
	default:
		f.fail(line, "%s is a group of settings, not one: it has %s", key, strings.Join(f.group(key), ", "))
	}
}

// group returns the settings of a group.
func (f *yamlFile) group(key string) []string {
	var members []string
	for _, k := range f.keys {
		if strings.HasPrefix(k, key+".") {
			members = append(members, k)
		}
	}
	return members
}

func (f *yamlFile) isGroup(key string) bool { return len(f.group(key)) > 0 }

func (f *yamlFile) setting(key string, line int, value *yaml.Node) {
	if first, ok := f.seen[key]; ok {
		f.fail(line, "%s is set a second time, after line %d", key, first)
		return
	}
	f.seen[key] = line
	text, ok := scalarText(value)
	if !ok {
		f.fail(line, "%s must have one value, or a list of values where it takes several", key)
		return
	}
	f.layer = append(f.layer, entry{fmt.Sprintf("%s:%d: %s", f.path, line, key), key, text})
}

// scalarText returns a value as the text that flags and environment have: a list
// with commas between its members.
func scalarText(n *yaml.Node) (string, bool) {
	switch n.Kind {
	case yaml.ScalarNode:
		return n.Value, n.Tag != "!!null"
	case yaml.SequenceNode:
		var parts []string
		for _, member := range n.Content {
			if member.Kind != yaml.ScalarNode {
				return "", false
			}
			parts = append(parts, member.Value)
		}
		return strings.Join(parts, ","), true
	default:
		return "", false
	}
}
