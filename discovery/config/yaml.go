package config

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"math/big"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

const (
	maxDepth     = 100     // of nested nodes: deeper than any object of Istio's; it also ends a cycle of aliases
	maxExpansion = 1 << 17 // nodes and bytes that the aliases of one object may add to it
)

// documents returns the root node of each document of a YAML stream. JSON is YAML as well. Empty documents are left out.
func documents(data []byte) (roots []*yaml.Node, fault *Problem) {
	return new(nodes).documents(data)
}

// documents is valid until the next call.
func (s *nodes) documents(data []byte) (roots []*yaml.Node, fault *Problem) {
	s.used = 0
	if root, ok := readFastYAML(string(data), s); ok {
		return []*yaml.Node{root}, nil
	}
	return anyDocuments(data)
}

// anyDocuments reads all of YAML.
func anyDocuments(data []byte) (roots []*yaml.Node, fault *Problem) {
	for decoder := yaml.NewDecoder(bytes.NewReader(data)); ; {
		var doc yaml.Node
		err := decoder.Decode(&doc)
		if errors.Is(err, io.EOF) {
			return roots, nil
		}
		if err != nil {
			return roots, syntaxFault(err, 1+bytes.Count(data, []byte("\n")))
		}
		if len(doc.Content) > 0 && !isNull(doc.Content[0]) {
			roots = append(roots, doc.Content[0])
		}
	}
}

// syntaxFault extracts the line from "yaml: line 3: did not find expected key". The parser counts the end of the file
// as a line of its own.
func syntaxFault(err error, lines int) *Problem {
	fault := Problem{Line: 1, Severity: Error, Message: err.Error()}
	if m := regexp.MustCompile(`^yaml: (?:line (\d+): )?(.*)$`).FindStringSubmatch(fault.Message); m != nil {
		fault.Message = m[2]
		if line, err := strconv.Atoi(m[1]); err == nil {
			fault.Line = min(max(line, 1), lines)
		}
	}
	return &fault
}

// entry is one key of a mapping with its value.
type entry struct {
	key   string // as written: an unquoted y, on or 1 is the name of a field, not a boolean or a number
	value *yaml.Node
	line  int
}

// reader reads nodes and limits the expansion of aliases: nine lines of YAML can expand to a billion nodes.
type reader struct {
	budget int // of nodes and bytes that aliases may still add
	fault  *Problem
}

func newReader() *reader { return &reader{budget: maxExpansion} }

// fail stops the reading. The first fault is kept.
func (r *reader) fail(line int, message string) {
	if r.fault == nil {
		r.fault = &Problem{Line: line, Severity: Error, Message: message}
	}
}

// enter returns the node to which an alias refers, and whether the nodes below it count against the budget.
func (r *reader) enter(n *yaml.Node, aliased bool, depth int) (*yaml.Node, bool) {
	if n.Kind == yaml.AliasNode {
		n, aliased = n.Alias, true
	}
	if aliased {
		r.budget -= 1 + len(n.Value)
	}
	switch {
	case depth > maxDepth:
		r.fail(n.Line, "is nested deeper than "+strconv.Itoa(maxDepth)+" levels")
	case r.budget < 0:
		r.fail(n.Line, "aliases expand to more than "+strconv.Itoa(maxExpansion)+" nodes and bytes")
	}
	return n, aliased
}

// entries returns a mapping's own keys in their order, then those it merges with "<<" and does not have.
func (r *reader) entries(n *yaml.Node, aliased bool, depth int) []entry {
	var own []entry
	var merges []*yaml.Node
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if key.ShortTag() == "!!merge" {
			merges = append(merges, value)
			continue
		}
		key, _ = r.enter(key, aliased, depth)
		if key.Kind != yaml.ScalarNode {
			r.fail(key.Line, "a key is "+describe(key)+", want a string")
		}
		own = append(own, entry{key.Value, value, key.Line})
	}
	if len(merges) == 0 || r.fault != nil {
		return own
	}
	has := map[string]bool{}
	for _, e := range own {
		has[e.key] = true
	}
	for _, merge := range merges {
		for _, e := range r.merged(merge, depth+1) {
			if !has[e.key] {
				has[e.key] = true
				own = append(own, e)
			}
		}
	}
	return own
}

// merged returns the entries that the value of "<<" adds: it is a mapping, or a list of mappings of which the first
// wins.
func (r *reader) merged(n *yaml.Node, depth int) (out []entry) {
	n, _ = r.enter(n, true, depth)
	switch {
	case r.fault != nil:
	case n.Kind == yaml.MappingNode:
		return r.entries(n, true, depth)
	case n.Kind == yaml.SequenceNode:
		for _, item := range n.Content {
			out = append(out, r.merged(item, depth+1)...)
		}
	default:
		r.fail(n.Line, "<< merges "+describe(n)+", want an object")
	}
	return out
}

func describe(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "an object"
	case yaml.SequenceNode:
		return "a list"
	default:
		return scalar(n)
	}
}

const quoted = yaml.SingleQuotedStyle | yaml.DoubleQuotedStyle | yaml.LiteralStyle | yaml.FoldedStyle

// The forms of YAML 1.2's core schema, section 10.3.2.
var (
	decimal = regexp.MustCompile(`^[-+]?[0-9]+$`)
	based   = regexp.MustCompile(`^0(o[0-7]+|x[0-9a-fA-F]+)$`)
	float   = regexp.MustCompile(`^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$`)
)

// maxDigits is longer than the digits of any number that a field holds; tooLarge is a number that no field holds.
const (
	maxDigits = 100
	tooLarge  = "1e999"
)

// scalar writes a scalar as JSON. A plain one is typed by YAML 1.2's core schema, not by the YAML package, for which
// 0777 is octal, 1_000 a number and 2026-01-01 a time. y, n, on and off are strings in both.
func scalar(n *yaml.Node) string {
	if n.Style&quoted != 0 && n.Style&yaml.TaggedStyle == 0 ||
		n.ShortTag() == "!!str" && n.Style&yaml.TaggedStyle != 0 {
		return quote(n.Value)
	}
	switch v := n.Value; v {
	case "", "~", "null", "Null", "NULL":
		return "null"
	case "true", "True", "TRUE":
		return "true"
	case "false", "False", "FALSE":
		return "false"
	case ".nan", ".NaN", ".NAN":
		return `"NaN"`
	case ".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF":
		return `"Infinity"`
	case "-.inf", "-.Inf", "-.INF":
		return `"-Infinity"`
	default:
		return number(v)
	}
}

// number writes a number in JSON's stricter form, anything else as a string.
func number(v string) string {
	switch {
	case decimal.MatchString(v):
		return integer(v)
	case len(v) > maxDigits && based.MatchString(v):
		return tooLarge // its decimal form takes long to find
	case based.MatchString(v):
		i, _ := new(big.Int).SetString(v, 0)
		return i.String()
	case float.MatchString(v):
		mantissa, exponent, found := strings.Cut(strings.ToLower(v), "e")
		whole, fraction, _ := strings.Cut(mantissa, ".")
		out := integer(whole) + "." + cmp.Or(fraction, "0")
		if found {
			out += "e" + exponent
		}
		return out
	default:
		return quote(v)
	}
}

// integer drops the plus and the leading zeros that JSON does not allow: +007 is 7, -0 stays, and the missing integer
// of .5 is 0.
func integer(v string) string {
	digits := strings.TrimLeft(strings.TrimLeft(v, "+-"), "0")
	if digits == "" {
		digits = "0"
	}
	if strings.HasPrefix(v, "-") {
		return "-" + digits
	}
	return digits
}

func quote(s string) string {
	out, _ := json.Marshal(s) // encoding a string never fails
	return string(out)
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && scalar(n) == "null" }
