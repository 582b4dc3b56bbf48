// Package manual keeps docs/cli up to date: it makes a page of Markdown from each command's --help, and compares it with the
// file.
//
// It is for tests. The programs, which have the tables of settings, make the page of settings.
package manual
