package config

import (
	"strings"

	"go.yaml.in/yaml/v3"
)

const maxFlow = 100 // mappings and lists in one another

// flow reads {a: b, c: [d]} where text begins, and returns what follows it on its line. Like the rest of plain it gives up on what few write: a
// form of several lines, keys in quotes or without a value, a comma at the end.
func (p *plain) flow(text string, depth int) (n *yaml.Node, rest string) {
	kind, end := yaml.MappingNode, "}"
	if text[0] == '[' {
		kind, end = yaml.SequenceNode, "]"
	}
	n = p.alloc(kind, p.line)
	n.Style = yaml.FlowStyle
	text = strings.TrimLeft(text[1:], " ")
	if rest, found := strings.CutPrefix(text, end); found {
		return n, rest
	}
	for depth < maxFlow {
		if kind == yaml.MappingNode {
			key, after, found := strings.Cut(text, ": ")
			if !found || !isPlainInFlow(key) || key == "<<" || len(key) > 1000 {
				break
			}
			n.Content = append(n.Content, p.scalar(key, 0, p.line))
			text = strings.TrimLeft(after, " ")
		}
		child, after := p.flowValue(text, depth)
		if child == nil {
			break
		}
		n.Content = append(n.Content, child)
		text = strings.TrimLeft(after, " ")
		if rest, found := strings.CutPrefix(text, end); found {
			return n, rest
		}
		next, found := strings.CutPrefix(text, ",")
		if !found {
			break
		}
		text = strings.TrimLeft(next, " ")
	}
	return nil, ""
}

// flowValue reads a value within a flow, nil where it gives up.
func (p *plain) flowValue(text string, depth int) (*yaml.Node, string) {
	switch {
	case text == "":
		return nil, ""
	case text[0] == '{' || text[0] == '[':
		return p.flow(text, depth+1)
	case text[0] == '"' || text[0] == '\'':
		return p.quoted(text)
	}
	end := strings.IndexAny(text, ",]}")
	if end < 0 {
		return nil, ""
	}
	value := strings.TrimRight(text[:end], " ")
	if !isPlainInFlow(value) {
		return nil, ""
	}
	return p.scalar(value, 0, p.line), text[end:]
}

// isPlainInFlow reports whether a text can only be a scalar without quotes within a flow, where more has a meaning.
func isPlainInFlow(text string) bool {
	return isScalar(text) && !strings.ContainsAny(text, "[]{},?#\"'") && text[len(text)-1] != ' '
}
