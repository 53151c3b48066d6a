package main

import (
	"bytes"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/ackmesh/ackmesh/server"
)

// configYAML writes all settings as a file that fileLayer reads; secrets are
// masked.
func configYAML(c server.Config) ([]byte, error) {
	root := &yaml.Node{Kind: yaml.MappingNode}
	for _, s := range settings(&c) {
		groups := strings.Split(s.key, ".")
		name := groups[len(groups)-1]
		at := root
		for _, group := range groups[:len(groups)-1] {
			at = childMapping(at, group)
		}
		at.Content = append(at.Content, textNode(name), s.node())
	}
	var out bytes.Buffer
	enc := yaml.NewEncoder(&out)
	enc.SetIndent(2)
	if err := enc.Encode(root); err != nil {
		return nil, err
	}
	return out.Bytes(), enc.Close()
}

// childMapping returns the mapping called name within n and makes it if missing.
func childMapping(n *yaml.Node, name string) *yaml.Node {
	for i := 0; i < len(n.Content); i += 2 {
		if n.Content[i].Value == name {
			return n.Content[i+1]
		}
	}
	child := &yaml.Node{Kind: yaml.MappingNode}
	n.Content = append(n.Content, textNode(name), child)
	return child
}

// node is the setting's value in YAML.
func (s setting) node() *yaml.Node {
	list, ok := s.field.Interface().([]time.Duration)
	if !ok {
		return s.scalar()
	}
	n := &yaml.Node{Kind: yaml.SequenceNode, Style: yaml.FlowStyle}
	for _, text := range durationTexts(list) {
		n.Content = append(n.Content, textNode(text))
	}
	return n
}

func (s setting) scalar() *yaml.Node {
	n := textNode(s.text())
	if s.kind() != "string" {
		n.Tag = "" // plain: true, 4, 0.2, 16MiB
	}
	return n
}

func textNode(text string) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: text}
}
