package fill

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"text/template/parse"
)

// Functions are what a template may call, by name. Each gets as many arguments as the template gives.
type Functions map[string]func(args ...any) (any, error)

// Template is a parsed template. It is not changed by Execute, so several may run at once.
type Template struct {
	name      string
	trees     map[string]*parse.Tree
	functions Functions
	takes     map[string]int // arguments of functions, of those that do not take any number
	computed  func(value any, name string) (any, bool)
}

// Parse reads a template. It may call own functions beside those of the language; one of the same name goes before. An
// error begins "template: NAME:LINE: ".
func Parse(name, text string, own Functions) (*Template, error) {
	functions, counts := builtin(), maps.Clone(takes)
	maps.Copy(functions, own)
	maps.DeleteFunc(counts, func(name string, _ int) bool { return own[name] != nil })
	known := map[string]any{"and": true, "or": true}
	for each := range functions {
		known[each] = true
	}
	trees, err := parse.Parse(name, text, "", "", known)
	if err != nil {
		return nil, err
	}
	return &Template{name: name, trees: trees, functions: functions, takes: counts}, nil
}

// Also adds the definitions of a further text, and makes it the template that Execute runs. As in text/template a definition
// goes before one of the same name, unless it is empty.
func (t *Template) Also(name, text string) (*Template, error) {
	own, err := Parse(name, text, t.functions)
	if err != nil {
		return nil, err
	}
	for each, tree := range t.trees {
		if now := own.trees[each]; now == nil || parse.IsEmptyTree(now.Root) && each != name {
			own.trees[each] = tree
		}
	}
	own.takes, own.computed = t.takes, t.computed
	return own, nil
}

// Compute sets a function that returns what a value has under a name that is no field of it, such as what a method of that
// name returns. It is asked before the fields.
func (t *Template) Compute(named func(value any, name string) (any, bool)) { t.computed = named }

// Trees yields the parts of the template: itself and all that it defines. A caller may change them before it executes the
// template.
func (t *Template) Trees() iter.Seq[*parse.Tree] { return maps.Values(t.trees) }

// Execute writes what the template makes of a value. An error names the place in the template:
// "template: NAME:LINE:COLUMN: executing "NAME" at <.Field>: …". What was written before it stays written.
func (t *Template) Execute(out io.Writer, value any) error {
	tree := t.trees[t.name]
	if tree == nil { // an empty text
		return nil
	}
	return t.begin(out, tree, value).run(tree.Root, value)
}

func (t *Template) begin(out io.Writer, tree *parse.Tree, value any) *state {
	return &state{template: t, tree: tree, out: out, variables: []variable{{"$", value}}}
}

// deepest bounds templates that call themselves.
const deepest = 1000

// They leave the list of a range. The parser takes break and continue nowhere else.
var (
	errBreak    = errors.New("break")
	errContinue = errors.New("continue")
)

// fault is an error that names its place.
func (s *state) fault(at parse.Node, format string, args ...any) error {
	place, context := s.tree.ErrorContext(at)
	return fmt.Errorf("template: %s: executing %q at <%s>: %w", place, s.tree.Name, context, fmt.Errorf(format, args...))
}
