package fill

import (
	"fmt"
	"io"
	"text/template/parse"
)

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
