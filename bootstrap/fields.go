package bootstrap

import (
	_ "embed"
	"strings"
)

// fieldsText tells of each message its name, and below that of each field: name, kind, argument ("-" for none) and
// the oneof that it is of, if any. A merge needs no more of Envoy's protos; all of them would be larger than the agent.
//
//go:embed fields.txt
var fieldsText string

// kind is how a field is merged, and its type in JSON.
type kind string

const (
	kindScalar   kind = "scalar"   // replaced, unless by its zero value; the argument is text or number
	kindEnum     kind = "enum"     // likewise; the argument is the zero value's name
	kindMessage  kind = "message"  // merged; the argument is its type
	kindList     kind = "list"     // appended to
	kindMap      kind = "map"      // entries are replaced; a Struct too
	kindWrapper  kind = "wrapper"  // a message with one scalar, whose argument it has; in JSON that scalar
	kindDuration kind = "duration" // a message of two numbers, in JSON one text: seconds and nanoseconds are replaced
	kindAny      kind = "any"      // replaced; what is in it is not looked at
)

type field struct {
	name     string // as protos spell it: snake_case
	kind     kind
	argument string
	oneof    string // empty for none
}

type message map[string]field // by both spellings of JSON

type schema map[string]message // by full name

const root = "envoy.config.bootstrap.v3.Bootstrap"

func parseFields(text string) schema {
	s := schema{}
	var current message
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		switch {
		case strings.HasPrefix(line, "#"):
		case !strings.HasPrefix(line, "\t"):
			current = message{}
			s[words[0]] = current
		default:
			f := field{name: words[0], kind: kind(words[1]), argument: words[2]}
			if len(words) > 3 {
				f.oneof = words[3]
			}
			current[f.name], current[camel(f.name)] = f, f
		}
	}
	return s
}

// camel is protobuf's other spelling: "node_context" is "nodeContext".
func camel(snake string) string {
	var out strings.Builder
	upper := false
	for _, r := range snake {
		switch {
		case r == '_':
			upper = true
		case upper && r >= 'a' && r <= 'z':
			out.WriteRune(r - 'a' + 'A')
			upper = false
		default:
			out.WriteRune(r)
			upper = false
		}
	}
	return out.String()
}
