// Package remote has the commands that ask a running discovery: status, config, release, explain without files, and what validate --live asks.
//
//	flags ─▶ discovery/debugclient ─▶ discovery's pages, an agent's port ─▶ proxystatus, explain ─▶ text or JSON
//
// It does not start a discovery, and reads no files of objects.
package remote
