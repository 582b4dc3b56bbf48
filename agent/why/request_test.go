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
