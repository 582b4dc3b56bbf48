// Package manual keeps docs/cli up to date: it makes a page of Markdown from each command's --help, and compares it with the
// file.
//
// It is for tests. It does not make the page of settings: the programs do, which have the tables.
package manual
