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

// state is one execution of a template, or of one that it calls.
type state struct {
	template  *Template
	tree      *parse.Tree
	out       io.Writer
	variables []variable // the last of a name counts
	depth     int        // of calls
}

type variable struct {
	name  string
	value any
}

// run writes what a node makes of dot.
func (s *state) run(n parse.Node, dot any) error {
	switch n := n.(type) {
	case *parse.ListNode:
		if n == nil { // no else
			return nil
		}
		for _, each := range n.Nodes {
			if err := s.run(each, dot); err != nil {
				return err
			}
		}
		return nil
	case *parse.TextNode:
		_, err := s.out.Write(n.Text)
		return err
	case *parse.ActionNode:
		value, err := s.pipe(n.Pipe, dot)
		if err != nil || len(n.Pipe.Decl) > 0 {
			return err
		}
		return s.print(value)
	case *parse.IfNode:
		return s.branch(&n.BranchNode, dot, func(any) any { return dot })
	case *parse.WithNode:
		return s.branch(&n.BranchNode, dot, func(value any) any { return value })
	case *parse.RangeNode:
		defer s.leave(len(s.variables))
		return s.each(n, dot)
	case *parse.TemplateNode:
		return s.call(n, dot)
	case *parse.BreakNode:
		return errBreak
	case *parse.ContinueNode:
		return errContinue
	case *parse.CommentNode:
		return nil
	default:
		return s.fault(n, "%s is not known", n)
	}
}

// leave forgets the variables of a part that ended.
func (s *state) leave(variables int) { s.variables = s.variables[:variables] }

// branch runs the list of an if or a with, or the other one.
func (s *state) branch(n *parse.BranchNode, dot any, inside func(value any) any) error {
	defer s.leave(len(s.variables))
	value, err := s.pipe(n.Pipe, dot)
	switch {
	case err != nil:
		return err
	case truth(value):
		return s.run(n.List, inside(value))
	default:
		return s.run(n.ElseList, dot)
	}
}

// each runs the list of a range for each element.
func (s *state) each(n *parse.RangeNode, dot any) error {
	before := len(s.variables)
	value, err := s.pipe(n.Pipe, dot)
	if err != nil {
		return err
	}
	elements, keyed, err := elementsOf(value)
	switch {
	case err != nil:
		return s.fault(n.Pipe, "%w", err)
	case len(n.Pipe.Decl) > 1 && !keyed:
		return s.fault(n.Pipe, "a number has no keys: want one variable")
	}
	empty := true
	for key, element := range elements {
		empty = false
		s.leave(before + len(n.Pipe.Decl)*declared(n.Pipe))
		switch decl := n.Pipe.Decl; len(decl) {
		case 1:
			err = s.assign(n, decl[0], element)
		case 2:
			if err = s.assign(n, decl[0], key); err == nil {
				err = s.assign(n, decl[1], element)
			}
		}
		if err == nil {
			err = s.run(n.List, element)
		}
		switch err {
		case nil, errContinue:
		case errBreak:
			return nil
		default:
			return err
		}
	}
	if empty {
		return s.run(n.ElseList, dot)
	}
	return nil
}

// declared is 1 for a pipe that makes its variables, 0 for one that sets others.
func declared(p *parse.PipeNode) int {
	if p.IsAssign {
		return 0
	}
	return 1
}

// call runs a template by its name, with variables of its own.
func (s *state) call(n *parse.TemplateNode, dot any) error {
	tree := s.template.trees[n.Name]
	switch {
	case tree == nil:
		return s.fault(n, "template %q not defined", n.Name)
	case s.depth == deepest:
		return s.fault(n, "templates call each other more than %d deep", deepest)
	}
	var value any
	if n.Pipe != nil {
		var err error
		if value, err = s.pipe(n.Pipe, dot); err != nil {
			return err
		}
	}
	inner := s.template.begin(s.out, tree, value)
	inner.depth = s.depth + 1
	return inner.run(tree.Root, value)
}

// print writes a value as text/template does.
func (s *state) print(value any) error {
	switch value.(type) {
	case nil:
		value = "<no value>"
	case error, fmt.Stringer:
	default:
		value = plain(indirect(value))
	}
	_, err := fmt.Fprint(s.out, value)
	return err
}
