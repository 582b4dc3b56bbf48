// Package clidoc keeps docs/cli up to date: it makes a page of Markdown from each command's --help, and compares it with the
// file. It also reads the blocks of commands on the pages of people's hand, for tests that type them.
//
//	command ─▶ page ─┬─▶ equal to the file of docs/cli?        settings ─▶ tables, for the programs' pages of settings
//	 its flags ──────┘
//
// It is for tests, and does not know a program: what its page of settings says beside the tables is the program's.
package clidoc
