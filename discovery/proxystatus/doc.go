// Package proxystatus joins the facts about each connected proxy: its identity and version, its state for each type of resource, the
// resources that it refuses, and the notes about it. /debug/proxies and `discovery status` show the result.
//
//	ads.Clients ─┐
//	             ├─▶ Of ─▶ proxies, the worst first ─▶ JSON ─▶ Read ─▶ Text
//	model.Notes ─┘
//
// It does not ask a running discovery, and does not decide what is wrong: its callers have the clients and the notes, or the JSON.
package proxystatus
