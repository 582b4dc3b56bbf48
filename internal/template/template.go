package template

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"strconv"
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

// pipe returns the value of a pipeline, and sets its variables unless a range does.
func (s *state) pipe(p *parse.PipeNode, dot any) (value any, err error) {
	for i, command := range p.Cmds {
		var before []any // the value of the command before is the last argument
		if i > 0 {
			before = []any{value}
		}
		if value, err = s.command(command, dot, before); err != nil {
			return nil, err
		}
	}
	for _, v := range p.Decl {
		if p.IsAssign {
			err = s.assign(p, v, value)
		} else {
			s.variables = append(s.variables, variable{v.Ident[0], value})
		}
	}
	return value, err
}

// assign changes a variable that is there.
func (s *state) assign(at parse.Node, v *parse.VariableNode, value any) error {
	for i := len(s.variables) - 1; i >= 0; i-- {
		if s.variables[i].name == v.Ident[0] {
			s.variables[i].value = value
			return nil
		}
	}
	return s.fault(at, "undefined variable: %s", v.Ident[0])
}

// command returns the value of one command of a pipeline.
func (s *state) command(c *parse.CommandNode, dot any, before []any) (any, error) {
	first := c.Args[0]
	if function, is := first.(*parse.IdentifierNode); is {
		return s.function(function, c.Args[1:], dot, before)
	}
	if len(c.Args) > 1 || len(before) > 0 {
		return nil, s.fault(first, "can't give argument to non-function %s", first)
	}
	if first.Type() == parse.NodeNil {
		return nil, s.fault(first, "nil is not a command")
	}
	return s.value(first, dot)
}

// value returns the value of an operand.
func (s *state) value(n parse.Node, dot any) (any, error) {
	switch n := n.(type) {
	case *parse.DotNode:
		return dot, nil
	case *parse.NilNode:
		return nil, nil
	case *parse.BoolNode:
		return n.True, nil
	case *parse.StringNode:
		return n.Text, nil
	case *parse.NumberNode:
		value, err := number(n)
		if err != nil {
			return nil, s.fault(n, "%w", err)
		}
		return value, nil
	case *parse.FieldNode:
		return s.chain(n, dot, n.Ident)
	case *parse.ChainNode:
		value, err := s.value(n.Node, dot)
		if err != nil {
			return nil, err
		}
		return s.chain(n, value, n.Field)
	case *parse.VariableNode:
		for i := len(s.variables) - 1; i >= 0; i-- {
			if s.variables[i].name == n.Ident[0] {
				return s.chain(n, s.variables[i].value, n.Ident[1:])
			}
		}
		return nil, s.fault(n, "undefined variable: %s", n.Ident[0])
	case *parse.PipeNode:
		return s.pipe(n, dot)
	case *parse.IdentifierNode:
		return s.function(n, nil, dot, nil)
	default:
		return nil, s.fault(n, "%s is not known", n)
	}
}

// chain returns the field of the field of a value.
func (s *state) chain(at parse.Node, value any, names []string) (any, error) {
	for _, name := range names {
		if s.template.computed != nil {
			if known, found := s.template.computed(value, name); found {
				value = known
				continue
			}
		}
		var err error
		if value, err = field(value, name); err != nil {
			return nil, s.fault(at, "%w", err)
		}
	}
	return value, nil
}

// function calls a function. Of the arguments of and and or those behind the one that decides are not evaluated.
func (s *state) function(n *parse.IdentifierNode, operands []parse.Node, dot any, before []any) (any, error) {
	if n.Ident == "and" || n.Ident == "or" {
		return s.decide(n, operands, dot, before)
	}
	// The number first, as text/template: an error is at the line of the function then.
	got := len(operands) + len(before)
	if want, counted := s.template.takes[n.Ident]; counted && got != want {
		return nil, s.fault(n, "error calling %s: %w", n.Ident, wrong(got, strconv.Itoa(want)))
	}
	args := make([]any, 0, got)
	for _, operand := range operands {
		value, err := s.value(operand, dot)
		if err != nil {
			return nil, err
		}
		args = append(args, value)
	}
	value, err := s.template.functions[n.Ident](append(args, before...)...)
	if err != nil {
		return nil, s.fault(n, "error calling %s: %w", n.Ident, err)
	}
	return value, nil
}

func (s *state) decide(n *parse.IdentifierNode, operands []parse.Node, dot any, before []any) (value any, err error) {
	if len(operands)+len(before) == 0 {
		return nil, s.fault(n, "%w", wrong(0, "at least 1"))
	}
	decided := n.Ident == "or"
	for _, operand := range operands {
		if value, err = s.value(operand, dot); err != nil || truth(value) == decided {
			return value, err
		}
	}
	if len(before) > 0 {
		return before[0], nil
	}
	return value, nil
}

// number returns a constant as an int, or as a float64 or complex128 where it is written as one.
func number(n *parse.NumberNode) (any, error) {
	switch hexadecimal := len(n.Text) > 2 && n.Text[0] == '0' && (n.Text[1] == 'x' || n.Text[1] == 'X'); {
	case n.IsComplex: // 0i too, which is an integer as well
		return n.Complex128, nil
	case n.IsFloat && n.Text[0] != '\'' && floating(n.Text, hexadecimal):
		return n.Float64, nil
	case n.IsInt && int64(int(n.Int64)) == n.Int64:
		return int(n.Int64), nil
	default:
		return nil, fmt.Errorf("%s overflows int", n.Text)
	}
}

func floating(text string, hexadecimal bool) bool {
	for _, c := range text {
		switch c {
		case '.', 'p', 'P':
			return true
		case 'e', 'E':
			if !hexadecimal {
				return true
			}
		}
	}
	return false
}
