// Package template runs templates in the language of text/template over plain values: structs, maps, lists, texts and
// numbers.
//
//	text ─▶ Parse (text/template/parse) ─▶ Template ─▶ Execute(values) ─▶ text
//	                                          └─▶ Trees: a caller may append a function to each action
//
// It knows no methods. text/template looks for a method by each name that a template has, so that the linker must keep
// every exported method of every type of a program: of discovery that is a quarter. All else of the language is here:
// if, with, range over numbers, lists and maps, break, continue, variables, define, block, and its functions, but for
// call. A caller that has values with methods computes what these return, by name: see Compute. As with its option missingkey=error, an entry that a map does not have is an error.
package template
