package fill

import (
	"fmt"
	"strconv"
	"text/template/parse"
)

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
