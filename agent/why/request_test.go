package why

import (
	"strings"
	"testing"
)

// A handshake that failed says what the certificate has, and where the expected names are read.
func TestHandshakesThatFail(t *testing.T) {
	const openSSL = "TLS_error:|268435581:SSL routines:OPENSSL_internal:"
	for _, test := range []struct{ reason, text, instead string }{
		{
			openSSL + "CERTIFICATE_VERIFY_FAILED:verify cert failed: SAN matcher, certificate SANs are [spiffe://cluster.local/ns/default/sa/server]:TLS_error_end",
			"the server's certificate has another name than the one that is expected, at 10.0.0.7:80: CERTIFICATE_VERIFY_FAILED:verify cert failed: SAN matcher, " +
				"certificate SANs are [spiffe://cluster.local/ns/default/sa/server]",
			"discovery explain --from WORKLOAD --to api.default.svc.cluster.local:8080",
		},
		{
			openSSL + "CERTIFICATE_VERIFY_FAILED:verify cert failed: X509_verify_cert: certificate verification error at depth 0: unable to get local issuer certificate:TLS_error_end",
			"the server's certificate was refused, at 10.0.0.7:80: CERTIFICATE_VERIFY_FAILED:verify cert failed: X509_verify_cert:", "caCertificates",
		},
		{openSSL + "WRONG_VERSION_NUMBER:TLS_error_end", "the TLS handshake failed, at 10.0.0.7:80: WRONG_VERSION_NUMBER", "DISABLE"},
		{"delayed connect error: Connection refused", "the connection failed, at 10.0.0.7:80: delayed connect error: Connection refused", "start the server"},
	} {
		got := Request{Flags: []string{"UF"}, Code: 503, Cluster: api, Endpoint: "10.0.0.7:80", Reason: test.reason}.Tell()
		if !strings.Contains(got.Text, test.text) || strings.Contains(got.Text, "TLS_error") || !strings.Contains(got.Instead, test.instead) {
			t.Errorf("%s is told as %q, %q; want %q, %q", test.reason, got.Text, got.Instead, test.text, test.instead)
		}
	}
}

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
