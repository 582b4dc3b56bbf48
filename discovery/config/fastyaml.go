package config

import (
	"strings"

	"go.yaml.in/yaml/v3"
)

// nodes allocates nodes in memory that it reuses: a document has a hundred nodes for each object, and none is needed
// after the object is read.
type nodes struct {
	all  []*[128]yaml.Node
	used int
}

// scalar returns a node of the style with a value.
func (s *nodes) scalar(value string, style yaml.Style, line int) *yaml.Node {
	n := s.alloc(yaml.ScalarNode, line)
	n.Value, n.Style = value, style
	return n
}

func (s *nodes) alloc(k yaml.Kind, line int) *yaml.Node {
	part, at := s.used/128, s.used%128
	if part == len(s.all) {
		s.all = append(s.all, new([128]yaml.Node))
	}
	s.used++
	n := &s.all[part][at]
	*n = yaml.Node{Kind: k, Line: line, Content: n.Content[:0]}
	return n
}

// fastYAML reads YAML of the form that nearly all configuration has, many times faster than the YAML package: one
// document in ASCII of block mappings and block lists, whose scalars are on one line and have no escapes, and of flows
// on one line. It gives up on any other form and on faults; the YAML package then reads the document from the start.
// Nodes have a kind, a value, a style and a line.
type fastYAML struct {
	*nodes
	text string
	next int // where the line after the current one begins

	// The current position: at the first character of a node, or of a key.
	line   int
	indent int // its column, from 0; -1 after the end of the document
	rest   string
	failed bool
}

// readFastYAML returns the root node of a document, false if it gives up.
func readFastYAML(text string, memory *nodes) (*yaml.Node, bool) {
	for i := range len(text) {
		if c := text[i]; c != '\n' && (c < ' ' || c > '~') {
			return nil, false
		}
	}
	p := fastYAML{nodes: memory, text: text}
	p.advance()
	if p.indent == 0 && strings.TrimRight(p.rest, " ") == "---" {
		p.advance()
	}
	if p.indent != 0 || p.failed {
		return nil, false
	}
	root := p.block()
	return root, !p.failed && p.indent < 0
}

func (p *fastYAML) fail() *yaml.Node {
	p.failed, p.indent = true, -1
	return nil
}

// advance goes to the next line that holds more than a comment.
func (p *fastYAML) advance() {
	for p.next < len(p.text) {
		line := p.text[p.next:]
		if end := strings.IndexByte(line, '\n'); end >= 0 {
			line = line[:end]
		}
		p.next += len(line) + 1
		p.line++
		p.rest = strings.TrimLeft(line, " ")
		p.indent = len(line) - len(p.rest)
		if p.rest == "" || p.rest[0] == '#' {
			continue
		}
		return
	}
	p.indent, p.rest = -1, ""
}

// block reads the mapping or list that begins here.
func (p *fastYAML) block() *yaml.Node {
	if isItem(p.rest) {
		return p.list()
	}
	return p.mapping()
}

// isItem reports whether an item of a list begins here.
func isItem(rest string) bool {
	return rest != "" && rest[0] == '-' && (len(rest) == 1 || rest[1] == ' ')
}

func (p *fastYAML) mapping() *yaml.Node {
	n, indent := p.alloc(yaml.MappingNode, p.line), p.indent
	for p.indent == indent {
		key, value, found := p.key()
		if !found {
			return p.fail()
		}
		n.Content = append(n.Content, p.scalar(key, 0, p.line))
		n.Content = append(n.Content, p.value(value, indent))
		if p.indent > indent {
			return p.fail()
		}
	}
	return n
}

// key cuts "key: value" in two.
func (p *fastYAML) key() (key, value string, found bool) {
	for i := range len(p.rest) {
		switch {
		case p.rest[i] == ' ' && i+1 < len(p.rest) && p.rest[i+1] == '#':
			return "", "", false
		case p.rest[i] == ':' && (i+1 == len(p.rest) || p.rest[i+1] == ' '):
			key = p.rest[:i]
			found = isPlain(key) && i < 1000 && p.rest[i-1] != ' ' && key != "<<" && !(p.indent == 0 && isMarked(key))
			return key, strings.TrimLeft(p.rest[i+1:], " "), found
		}
	}
	return "", "", false
}

// isMarked reports whether a text at the beginning of a line may be the marker of a document's end or beginning.
func isMarked(text string) bool {
	return strings.HasPrefix(text, "---") || strings.HasPrefix(text, "...")
}

// value reads the value of a key of a mapping, and goes to the line after it.
func (p *fastYAML) value(text string, indent int) *yaml.Node {
	line := p.line
	if text != "" && text[0] != '#' {
		return p.oneLine(text)
	}
	p.advance()
	switch {
	case p.indent == indent && isItem(p.rest):
		return p.list()
	case p.indent > indent:
		return p.block()
	default:
		return p.scalar("", 0, line)
	}
}

func (p *fastYAML) list() *yaml.Node {
	n, indent := p.alloc(yaml.SequenceNode, p.line), p.indent
	for p.indent == indent && isItem(p.rest) {
		text := strings.TrimLeft(p.rest[1:], " ")
		if text == "" || text[0] == '#' || isItem(text) {
			return p.fail()
		}
		p.indent += len(p.rest) - len(text)
		p.rest = text
		if _, _, found := p.key(); found {
			n.Content = append(n.Content, p.mapping())
		} else {
			n.Content = append(n.Content, p.oneLine(text))
		}
		if p.indent > indent {
			return p.fail()
		}
	}
	return n
}

// oneLine reads a node that ends with its line, and goes to the next one.
func (p *fastYAML) oneLine(text string) *yaml.Node {
	var n *yaml.Node
	rest := ""
	switch text[0] {
	case '"', '\'':
		n, rest = p.quoted(text)
	case '{', '[':
		n, rest = p.flow(text, 0)
	default:
		value, _, _ := strings.Cut(text, " #")
		value = strings.TrimRight(value, " ")
		if isScalar(value) {
			n = p.scalar(value, 0, p.line)
		}
	}
	comment := strings.TrimLeft(rest, " ")
	if n == nil || comment != "" && (comment[0] != '#' || len(comment) == len(rest)) {
		return p.fail()
	}
	p.advance()
	return n
}

// quoted reads a scalar in quotes, and returns what follows it on its line; nil where it gives up.
func (p *fastYAML) quoted(text string) (*yaml.Node, string) {
	value, rest, found := strings.Cut(text[1:], text[:1])
	if !found || text[0] == '"' && strings.Contains(value, `\`) {
		return nil, ""
	}
	style := yaml.DoubleQuotedStyle
	if text[0] == '\'' {
		style = yaml.SingleQuotedStyle
	}
	return p.scalar(value, style, p.line), rest
}

// isScalar reports whether a text can only be a scalar without quotes, and not a key too.
func isScalar(text string) bool {
	return isPlain(text) && !strings.Contains(text, ": ") && text[len(text)-1] != ':'
}

// isPlain reports whether a text can only be the beginning of a scalar without quotes.
func isPlain(text string) bool {
	if text == "" || strings.IndexByte("?:,[]{}#&*!|>'\"%@`", text[0]) >= 0 {
		return false
	}
	return text[0] != '-' || len(text) > 1 && text[1] != ' '
}

const maxFlow = 100 // mappings and lists in one another

// flow reads {a: b, c: [d]} where text begins, and returns what follows it on its line. Like the rest of fastYAML it
// gives up on what few write: a form of several lines, keys in quotes or without a value, a comma at the end.
func (p *fastYAML) flow(text string, depth int) (n *yaml.Node, rest string) {
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
func (p *fastYAML) flowValue(text string, depth int) (*yaml.Node, string) {
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
