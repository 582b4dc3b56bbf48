// Package protocol decides the responses of one discovery stream, in both variants: state of the world and delta.
//
//	bytes ─ Request.Read ─▶ Request ─▶ Session.Request ──┐
//	a newer Snapshot ─────▶ Session.Renew, then Flush ───┼─▶ Responses to send now
//	the time that Wakes named ─▶ Session.Flush ──────────┘     └▶ the other ones follow a client's answers
//
//	Session ─▶ a subscription of each kind: names, nonce, what was sent and accepted ─▶ the search for what a client refuses
//	        ─▶ gates: what waits for what, and until when
//
// A Session is state without I/O: it has no goroutine, no clock and no lock. One caller at a time uses it, and passes the
// time. Its sets are values of package content; what is large in it, other streams share.
//
// A request is read without a string for each of its names. A refusal costs a client the refused part only: the search among
// the parts of a response finds it, and sends the rest.
//
// The package does not send, does not count, and does not know the identity of a client.
package protocol
