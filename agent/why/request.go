package why

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Request is one request, or one connection of TCP, that failed.
type Request struct {
	At        time.Time `json:"at"`    // its begin
	Flags     []string  `json:"flags"` // Envoy's response flags; none for an answer of the server itself, and of some filters
	Code      int       `json:"code,omitempty"`
	Method    string    `json:"method,omitempty"` // empty for a connection
	Authority string    `json:"authority,omitempty"`
	Path      string    `json:"path,omitempty"` // without the values of its query
	Client    string    `json:"client,omitempty"`
	Listener  string    `json:"listener,omitempty"` // address at which a connection was refused, before a filter had it
	Cluster   string    `json:"cluster,omitempty"`
	Endpoint  string    `json:"endpoint,omitempty"`
	Route     string    `json:"route,omitempty"`
	Details   string    `json:"details,omitempty"` // Envoy's, such as via_upstream
	Reason    string    `json:"reason,omitempty"`  // of a connection that failed, such as the words of a TLS alert
	Tries     int       `json:"tries,omitempty"`
	Took      float64   `json:"took_ms"`
	Text      string    `json:"text"`    // a sentence
	Instead   string    `json:"instead"` // what to do
}

// longestReason is how many bytes of a reason are shown: of OpenSSL's words the last say most.
const longestReason = 310

// viaUpstream is the detail of an answer that came from the server.
const viaUpstream = "via_upstream"

// Failed reports whether a record is of a failure: a 401 or a 403 that the server itself has answered is the server's business.
func (r Request) Failed() bool {
	return len(r.Flags) > 0 || r.Code == 0 || r.Code >= 500 || r.Details != viaUpstream
}

// flagWords says what a flag means. stat is the end of the counter whose cause has the remedy; empty for none.
var flagWords = []struct{ flag, stat, says string }{
	{"UF", "upstream_cx_connect_fail", "the connection failed"},
	{"UO", "upstream_rq_pending_overflow", "not sent, since the limits of its DestinationRule or cluster are reached"},
	{"UH", "upstream_cx_none_healthy", "no endpoint was healthy"},
	{"NC", "no_cluster", "the route leads to a cluster that Envoy does not have"},
	{"NR", "no_route", "no route matches"},
	{"UT", "upstream_rq_timeout", "the server has not answered in time"},
	{"UC", "upstream_cx_destroy_remote_with_active_rq", "the server closed the connection while the request was under way"},
	{"UR", "upstream_rq_rx_reset", "the server reset the request"},
	{"UPE", "upstream_cx_protocol_error", "the server's answer is not the HTTP that Envoy expects"},
	{"URX", "upstream_rq_retry_limit_exceeded", "each try failed, and no retry was left"},
	{"UAEX", "ext_authz.denied", "the external authorization server refused it, or did not answer"},
	{"RLSE", "", "the rate limit service failed"},
	{"RL", "http_local_rate_limit.rate_limited", "the rate limit is used up"},
	{"DF", "", "the name of the server could not be resolved"},
	{"UMSDR", "", "it took longer than a stream may last"},
	{"SI", "", "nothing was sent for longer than a stream may be idle"},
	{"DT", "", "the connection lasted longer than it may"},
	{"IH", "", "a header that Envoy checks is wrong"},
	{"FI", "", "ended by a fault that is injected"},
	{"DI", "", "delayed by a fault that is injected"},
	{"OM", "", "refused, since Envoy is overloaded"},
	{"NFCF", "", "a filter has no configuration yet"},
	{"LH", "", "the local health check fails"},
	{"LR", "", "Envoy reset the request"},
	{"DPE", "downstream_cx_protocol_error", "the client's request is no HTTP that Envoy takes"},
	{"DC", "downstream_rq_rx_reset", "the client left before its answer came"},
	{"DR", "downstream_rq_rx_reset", "the client reset the request"},
}

// serverHandshakes says what the reason of a connection that failed means, the first that fits.
var serverHandshakes = []struct{ in, stat, says string }{
	{"SAN matcher", "ssl.fail_verify_san", "the server's certificate has another name than the one that is expected"},
	{"CERTIFICATE_VERIFY_FAILED", "ssl.fail_verify_error", "the server's certificate was refused"},
	{"TLS", "ssl.connection_error", "the TLS handshake failed"},
}

// reasonOf returns what follows the codes of the TLS library, which leave the names at its end no room: "verify cert failed: …".
func reasonOf(text string) string {
	if _, words, found := strings.Cut(text, "OPENSSL_internal:"); found {
		return strings.TrimSuffix(words, ":TLS_error_end")
	}
	return text
}

// remedies for flags that no counter has.
var flagRemedies = map[string]string{
	"DF": "look at whether the host's name is right, and resolves where the proxy runs", "RLSE": "look at whether the rate limit service is up",
	"UMSDR": "raise timeout of the VirtualService's route", "FI": "take fault out of the VirtualService", "DI": "take fault out of the VirtualService",
	"OM": "give the proxy more memory, or fewer connections",
}

// Tell returns a request with its sentence and what to do, in one line each, however long or wrong the texts of the record are.
func (r Request) Tell() Request {
	r.Authority, r.Path, r.Client, r.Method = printable(r.Authority), printable(r.Path), printable(r.Client), printable(r.Method)
	r.Cluster, r.Endpoint, r.Route = printable(r.Cluster), printable(r.Endpoint), printable(r.Route)
	r.Details, r.Listener = printable(r.Details), printable(r.Listener)
	if r.refused() {
		r.Reason = oneLine(r.Reason, longestReason)
		r.Text, r.Instead = r.tellRefused()
		return r
	}
	r.Listener = ""
	cause, stat, says := r.cause()
	r.Reason = oneLine(reasonOf(r.Reason), longestReason)
	subject := "connection"
	if r.Method != "" || r.Path != "" {
		subject = strings.TrimSpace(r.Method + " " + r.Authority + r.Path)
	}
	if r.Client != "" {
		subject += " of " + r.Client
	}
	if r.Cluster != "" {
		subject += " " + place(ofCluster, r.Cluster)
	}
	r.Text = subject + ": " + says
	if r.Endpoint != "" && strings.HasPrefix(cause, "U") {
		r.Text += ", at " + r.Endpoint
	}
	if r.Reason != "" {
		r.Text += ": " + r.Reason
	}
	if r.Tries > 1 {
		r.Text += fmt.Sprintf(" (%s)", plural(int64(r.Tries), "try"))
	}
	r.Instead = r.remedyFor(cause, stat)
	return r
}

// cause returns the flag that says most, the end of the counter that has its remedy, and the words for it.
func (r Request) cause() (flag, stat, says string) {
	for _, w := range flagWords {
		if !slices.Contains(r.Flags, w.flag) {
			continue
		}
		if w.flag != "UF" {
			return w.flag, w.stat, w.says
		}
		for _, h := range serverHandshakes {
			if strings.Contains(r.Reason, h.in) {
				return w.flag, h.stat, h.says
			}
		}
		return w.flag, w.stat, w.says
	}
	switch {
	case strings.HasPrefix(r.Details, "rbac_access_denied"):
		return "", "rbac.denied", "a policy does not allow it (" + r.Details + ")"
	case strings.HasPrefix(r.Details, "jwt_authn_access_denied"):
		return "", "jwt_authn.denied", "its token is missing, expired or of another issuer (" + r.Details + ")"
	case r.Details == viaUpstream:
		return "", "", fmt.Sprintf("the server itself answered %d", r.Code)
	case r.Code != 0:
		return "", "", fmt.Sprintf("Envoy answered %d (%s)", r.Code, r.Details)
	}
	return strings.Join(r.Flags, ","), "", "it failed"
}

func (r Request) remedyFor(flag, stat string) string {
	for _, c := range causes {
		if stat != "" && c.stat == stat {
			return c.remedy(r.Cluster)
		}
	}
	if instead := flagRemedies[flag]; instead != "" {
		return instead
	}
	if r.Details == viaUpstream {
		return "look at the server's log"
	}
	return "look at Envoy's log"
}

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
