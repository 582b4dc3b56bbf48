// Package manual keeps docs/cli true: it makes a page of Markdown from each command's own --help, and compares it with the file.
//
// It is for tests. It leaves the page of settings to the programs, which have the tables.
package manual
