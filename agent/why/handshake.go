package why

import (
	"slices"
	"strings"
)

// clientHandshakes says what Envoy's words of a failed handshake of a client mean. stat is the end of the counter whose cause has the remedy.
var clientHandshakes = []struct{ words, stat, says, instead string }{
	{"PEER_DID_NOT_RETURN_A_CERTIFICATE", "ssl.fail_verify_no_cert", "the client has shown no certificate", ""},
	{"verify SAN", "ssl.fail_verify_san", "the name in the client's certificate is not allowed", ""},
	{"certificate has expired", "", "the client's certificate has expired", "renew the client's certificate, and look at the clocks of both hosts"},
	{"CERTIFICATE_VERIFY_FAILED", "ssl.fail_verify_error", "the client's certificate is refused", ""},
	{"HTTP_REQUEST", "", "the client speaks plain HTTP, where TLS is wanted", "give the client a sidecar with a certificate, or make the port PERMISSIVE"},
	{"UNSUPPORTED_PROTOCOL", "", "the client offers no version of TLS that is taken", "let the client use TLS 1.2 or 1.3"},
	{"NO_SHARED_CIPHER", "", "the client offers no cipher that is taken", "let the client offer further ciphers"},
	{"UNKNOWN_CA", "ssl.connection_error", "the client does not trust the root of this server's certificate", ""},
	{"ALERT_BAD_CERTIFICATE", "ssl.connection_error", "the client refuses this server's certificate", ""},
	{"_ALERT_", "ssl.connection_error", "the client has ended it with an alert", ""},
}

// listenerCause returns the cause of a listener's counter.
func listenerCause(stat string) (cause, bool) {
	i := slices.IndexFunc(causes, func(c cause) bool { return c.kind == ofListener && c.stat == stat })
	if i < 0 {
		return cause{}, false
	}
	return causes[i], true
}

// refused reports whether the record is of a connection that reached no filter: its listener has sent it, and it has no cluster.
func (r Request) refused() bool {
	return r.Listener != "" && r.Cluster == "" && r.Method == "" && r.Code == 0
}

// tellRefused returns the sentence of such a connection, and what to do.
func (r Request) tellRefused() (text, instead string) {
	where := " of " + r.Client + " at " + r.Listener + " failed: "
	words := ""
	if r.Reason != "" {
		words = ": " + r.Reason
	}
	if len(r.Flags) > 0 { // NR: whether TLS or not, no chain took it
		c, _ := listenerCause("no_filter_chain_match")
		return "connection" + where + c.tell(subject{}) + words, c.remedy(r.Listener)
	}
	folded := strings.ReplaceAll(r.Reason, "_", " ")
	for _, h := range clientHandshakes {
		if !strings.Contains(folded, strings.ReplaceAll(h.words, "_", " ")) {
			continue
		}
		if c, found := listenerCause(h.stat); found {
			h.instead = c.remedy(r.Listener)
		}
		return "handshake" + where + h.says + words, h.instead
	}
	return "handshake" + where + strings.TrimPrefix(words, ": "), "look at the log of the client, which may say why it ended the handshake"
}
