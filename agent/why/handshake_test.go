package why

import (
	"strings"
	"testing"
)

// A client that reached no filter has Envoy's words, what they mean, and what to do; these are Envoy 1.40's.
func TestRefusedClients(t *testing.T) {
	const verify = "TLS_error:|268435581:SSL_routines:OPENSSL_internal:CERTIFICATE_VERIFY_FAILED:verify_cert_failed:_X509_verify_cert:_certificate_verification_error_at_depth_0:_"
	for _, row := range []struct {
		reason, flag, text, instead string
	}{
		{"TLS_error:|268435648:SSL_routines:OPENSSL_internal:PEER_DID_NOT_RETURN_A_CERTIFICATE:peer_did_not_provide_required_client_certificate:TLS_error_end", "", "the client has shown no certificate", "ISTIO_MUTUAL"},
		{verify + "unable_to_get_local_issuer_certificate:TLS_error_end", "", "the client's certificate is refused", "the mesh's authority"},
		{verify + "certificate_has_expired:TLS_error_end", "", "the client's certificate has expired", "renew the client's certificate"},
		{"TLS_error:|268435696:SSL_routines:OPENSSL_internal:UNSUPPORTED_PROTOCOL:TLS_error_end", "", "no version of TLS that is taken", "TLS 1.2"},
		{"TLS_error|error:10000418:SSL_routines:OPENSSL_internal:TLSV1_ALERT_UNKNOWN_CA:TLS_error_end", "", "does not trust the root of this server's certificate", "trust this server's authority"},
		{"TLS_error:|268436498:SSL routines:OPENSSL_internal:SSLV3_ALERT_BAD_CERTIFICATE:TLS_error_end", "", "the client refuses this server's certificate", "trust this server's authority"},
		{"TLS_error|error:1000009c:SSL_routines:OPENSSL_internal:HTTP_REQUEST:TLS_error_end", "NR", "no filter chain matches", "compare its DestinationRule's tls"},
		{"", "NR", "no filter chain matches", "compare its DestinationRule's tls"},
		{"TLS_error: something new", "", "TLS_error: something new", "look at the log of the client"},
	} {
		r := Request{Client: "10.0.0.7:4000", Listener: "10.0.0.1:80", Reason: row.reason}
		first := "handshake"
		if row.flag != "" {
			r.Flags, first = []string{row.flag}, "connection"
		}
		got := r.Tell()
		if !strings.HasPrefix(got.Text, first+" of 10.0.0.7:4000 at 10.0.0.1:80 failed: ") || !strings.Contains(got.Text, row.text) || !strings.HasSuffix(got.Text, row.reason) || !strings.Contains(got.Instead, row.instead) {
			t.Errorf("got %q, %q, want %q", got.Text, got.Instead, row)
		}
	}
	if got := (Request{Client: "a", Flags: []string{"NR"}}).Tell(); got.Text != "connection of a: no route matches" { // tcp_proxy's
		t.Errorf("a connection that a filter had: %q", got.Text)
	}
	if got := (Request{Listener: "a\nb", Reason: "TLS\x1b"}).Tell(); strings.ContainsAny(got.Text, "\n\x1b") {
		t.Errorf("got %q", got.Text)
	}
}
