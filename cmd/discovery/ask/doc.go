// Package ask has the commands that ask a running discovery: status, config, release, and explain without files.
//
//	flags ─▶ discovery/client ─▶ discovery's pages, an agent's port ─▶ overview, explain ─▶ text or JSON
//
// It does not start a discovery, and reads no files.
package ask
