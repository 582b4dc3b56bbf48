package bootstrap

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"text/template/parse"
	"time"

	"github.com/pilotlight/pilotlight/internal/template"
	"github.com/pilotlight/pilotlight/node"
	"github.com/pilotlight/pilotlight/templates"
)

// Render returns the bootstrap of the node's role, as indented JSON.
func Render(p Params) ([]byte, error) {
	text := templates.Sidecar
	if p.Node.Role == node.Ingress || p.Node.Role == node.Router {
		text = templates.Gateway
	}
	return render(executeOwn, text, p)
}

// RenderTemplate renders a template of the user's own, which must yield a JSON object; docs/bootstrap.md tells the
// keys, and the parts that it may take over. Values are written as JSON whether or not the template says so, so that
// none can break the document. An error names the line of the template, or of what it yields.
func RenderTemplate(text string, p Params) ([]byte, error) {
	return render(execute, text, p)
}

func render(execute func(string, Params) ([]byte, error), text string, p Params) ([]byte, error) {
	if err := p.Validate(); err != nil {
		return nil, fmt.Errorf("render bootstrap: %w", err)
	}
	rendered, err := execute(text, p)
	if err != nil {
		return nil, err
	}
	return indent(rendered)
}

// execute runs a template that may use all parts.
func execute(text string, p Params) ([]byte, error) {
	return executeWith(templates.Parts+templates.Optional, text, p)
}

// executeOwn runs a template of package templates. Most bootstraps need no optional part, and to parse those takes longer than
// all the rest: they are parsed when the template turns out to need one.
func executeOwn(text string, p Params) ([]byte, error) {
	if out, err := executeWith(templates.Parts, text, p); err == nil {
		return out, nil
	}
	return execute(text, p)
}

// executeWith runs a template that may use these parts.
func executeWith(parts, text string, p Params) ([]byte, error) {
	t, err := template.Parse("parts", parts, functions())
	if err != nil {
		return nil, fmt.Errorf("parse parts of the bootstrap template: %w", err)
	}
	t.Compute(computed)
	if t, err = t.Also("bootstrap", text); err != nil {
		return nil, fmt.Errorf("parse bootstrap template: %w", err)
	}
	for each := range t.Trees() {
		if each.Root != nil {
			writeJSON(each.Root)
		}
	}
	var out bytes.Buffer
	if err := t.Execute(&out, p); err != nil {
		return nil, fmt.Errorf("render bootstrap: %w", err)
	}
	return out.Bytes(), nil
}

// functions are what a template may call beside the language's own.
func functions() template.Functions {
	return template.Functions{
		"json": func(args ...any) (any, error) {
			if len(args) != 1 {
				return nil, fmt.Errorf("wrong number of args for json: want 1 got %d", len(args))
			}
			return marshal(args[0])
		},
		"seconds": func(args ...any) (any, error) {
			if len(args) == 1 {
				if d, ok := args[0].(time.Duration); ok {
					return seconds(d), nil
				}
			}
			return nil, errors.New("wrong args for seconds: want one duration")
		},
	}
}

// computed returns what a method of a parameter returns. A template that looked for methods itself would make the linker keep
// every exported method of every type of the agent: 1.7 MB.
func computed(value any, name string) (any, bool) {
	switch v := value.(type) {
	case Params:
		return v.computed(name)
	case *Params:
		return v.computed(name)
	case Discovery:
		return v.Address.computed(name)
	case Address:
		return v.computed(name)
	case *TLS:
		if name == "SANType" && v != nil {
			return v.SANType(), true
		}
	case Stats:
		if name == "Limited" {
			return v.Limited(), true
		}
	case node.Metadata:
		if name == "Map" {
			return v.Map(), true
		}
	case node.Said:
		if name == "Map" {
			return v.Map(), true
		}
	case fmt.Stringer:
		if name == "String" {
			return v.String(), true
		}
	}
	return nil, false
}

func (p Params) computed(name string) (any, bool) {
	switch name {
	case "HasSinks":
		return p.HasSinks(), true
	case "Listeners":
		return p.Listeners(), true
	case "TracesTo":
		return p.TracesTo(), true
	case "Upstreams":
		return p.Upstreams(), true
	case "Wildcard":
		return p.Wildcard(), true
	}
	return nil, false
}

func (a Address) computed(name string) (any, bool) {
	switch name {
	case "IsIP":
		return a.IsIP(), true
	case "IsSet":
		return a.IsSet(), true
	case "String":
		return a.String(), true
	}
	return nil, false
}

// writeJSON makes every action of a template end in json, as html/template makes it end in what suits its place.
func writeJSON(n parse.Node) {
	switch n := n.(type) {
	case *parse.ListNode:
		for _, each := range n.Nodes {
			writeJSON(each)
		}
	case *parse.ActionNode:
		if len(n.Pipe.Decl) == 0 && !endsInJSON(n.Pipe) {
			call := []parse.Node{parse.NewIdentifier("json").SetPos(n.Pos)}
			n.Pipe.Cmds = append(n.Pipe.Cmds, &parse.CommandNode{NodeType: parse.NodeCommand, Pos: n.Pos, Args: call})
		}
	case *parse.IfNode:
		writeJSONBranch(n.BranchNode)
	case *parse.RangeNode:
		writeJSONBranch(n.BranchNode)
	case *parse.WithNode:
		writeJSONBranch(n.BranchNode)
	}
}

func writeJSONBranch(n parse.BranchNode) {
	writeJSON(n.List)
	if n.ElseList != nil {
		writeJSON(n.ElseList)
	}
}

func endsInJSON(p *parse.PipeNode) bool {
	last := p.Cmds[len(p.Cmds)-1]
	name, ok := last.Args[0].(*parse.IdentifierNode)
	return ok && name.Ident == "json"
}

// marshal is the function json. A value that JSON cannot hold is an error, where encoding/json would write another value.
func marshal(value any) (string, error) {
	var out strings.Builder
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false) // a bootstrap is not shown in a browser, and "a&b" is easier to read
	if err := encoder.Encode(value); err != nil {
		return "", err
	}
	text := strings.TrimSuffix(out.String(), "\n")
	if replaced(text) {
		return "", fmt.Errorf("%.200q: want UTF-8", fmt.Sprint(value))
	}
	return text, nil
}

// replaced reports whether encoding/json has put U+FFFD for what is no UTF-8: that it escapes, and one of the value's
// own it writes as it is.
func replaced(text string) bool {
	const escaped = `\ufffd`
	for i := 0; i < len(text); i++ {
		switch {
		case strings.HasPrefix(text[i:], escaped):
			return true
		case text[i] == '\\':
			i++ // what it escapes
		}
	}
	return false
}

// seconds formats a duration as protobuf's JSON does: "1.5s".
func seconds(d time.Duration) string {
	return strconv.FormatFloat(d.Seconds(), 'f', -1, 64) + "s"
}

// indent makes a JSON object readable. An error shows the line where the text is no JSON.
func indent(text []byte) ([]byte, error) {
	var object map[string]json.RawMessage
	var out bytes.Buffer
	err := json.Unmarshal(text, &object)
	if err == nil && object == nil {
		err = errors.New("is null")
	}
	if err == nil {
		err = json.Indent(&out, bytes.TrimSpace(text), "", "  ")
	}
	if err != nil {
		return nil, fmt.Errorf("parse rendered bootstrap: want a JSON object: %s%w", lineOf(text, err), err)
	}
	return out.Bytes(), nil
}

// lineOf quotes the line in which a JSON document is broken: "line 3: \"a\": x: ".
func lineOf(text []byte, err error) string {
	var syntax *json.SyntaxError
	if !errors.As(err, &syntax) {
		return ""
	}
	before := text[:max(0, min(int(syntax.Offset)-1, len(text)))]
	start := bytes.LastIndexByte(before, '\n') + 1
	line, _, _ := bytes.Cut(text[start:], []byte("\n"))
	return fmt.Sprintf("line %d: %.120s: ", bytes.Count(before, []byte("\n"))+1, bytes.TrimSpace(line))
}
