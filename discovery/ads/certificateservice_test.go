package ads

import (
	"context"
	"crypto/tls"
	"net"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"
	security "istio.io/api/security/v1alpha1"

	"github.com/pilotlight/pilotlight/discovery/ads/adstest"
	"github.com/pilotlight/pilotlight/e2e/lab"
)

// Istio's agent sends its token, or its certificate, and gets the chain with the roots as its last element.
func TestIstiosCertificateService(t *testing.T) {
	a := newAuthority(t)
	pair, err := tls.X509KeyPair(splitPair(a.issue(2, "")))
	a.check(err)
	got := make(chan Application, 1)
	secure, err := NewTLS(Certificates{}, &Own{
		Certificate: func() (*tls.Certificate, error) { return &pair, nil }, Roots: a.Pool, Web: func(c net.Conn) { _ = c.Close() }, Foreign: true,
		Sign: func(_ context.Context, asked Application) ([]string, error) {
			got <- asked
			if asked.Token == "forged" {
				return nil, status.Error(codes.Unauthenticated, "refused")
			}
			return []string{"leaf", "issuer", "roots"}, nil
		},
	})
	a.check(err)
	r := runWith(t, testLimits(), secure)
	ctx, cancel := context.WithTimeout(t.Context(), adstest.Deadline)
	defer cancel()
	for name, c := range map[string]struct {
		identities []lab.Identity
		token      string
		seconds    int64
		ttl        time.Duration
		code       codes.Code
	}{
		"a token":       {nil, "good", 3600, time.Hour, codes.OK},
		"a forged one":  {nil, "forged", 0, 0, codes.Unauthenticated},
		"a certificate": {[]lab.Identity{a.issue(3, "spiffe://cluster.local/ns/default/sa/app")}, "", -1, 0, codes.OK},
		"a long time":   {nil, "good", 1 << 62, 9223372036 * time.Second, codes.OK},
	} {
		connection := r.dial(a.client(nil, c.identities...))
		asking := ctx
		if c.token != "" {
			asking = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+c.token)
		}
		answer, err := security.NewIstioCertificateServiceClient(connection).CreateCertificate(asking, &security.IstioCertificateRequest{Csr: "csr", ValidityDuration: c.seconds})
		if status.Code(err) != c.code || c.code == codes.OK && (len(answer.GetCertChain()) != 3 || answer.GetCertChain()[2] != "roots") {
			t.Errorf("%s: %v, %v", name, answer, err)
		}
		asked := <-got
		if string(asked.CSR) != "csr" || asked.Token != c.token || asked.TTL != c.ttl || len(asked.Chains) != len(c.identities) {
			t.Errorf("%s: asked %+v", name, asked)
		}
		_ = connection.Close()
	}
	connection := r.dial(a.client(nil))
	defer connection.Close()
	for _, field := range []string{"ImpersonatedIdentity", "CertSigner"} {
		more, err := structpb.NewStruct(map[string]any{field: "spiffe://cluster.local/ns/kube-system/sa/admin"})
		a.check(err)
		_, err = security.NewIstioCertificateServiceClient(connection).CreateCertificate(ctx, &security.IstioCertificateRequest{Csr: "csr", Metadata: more})
		if status.Code(err) != codes.InvalidArgument {
			t.Errorf("%s: %v, want it refused", field, err)
		}
	}
	if held := r.intake.Held(); held != 0 {
		t.Errorf("%d bytes of requests are held when all are answered", held)
	}
}

// Without an authority, and in plain text, there is no such service.
func TestNoCertificatesInPlainText(t *testing.T) {
	r := runWith(t, testLimits(), nil)
	ctx, cancel := context.WithTimeout(t.Context(), adstest.Deadline)
	defer cancel()
	_, err := security.NewIstioCertificateServiceClient(r.client).CreateCertificate(ctx, &security.IstioCertificateRequest{Csr: "csr"})
	if status.Code(err) != codes.Unimplemented {
		t.Errorf("%v, want it unimplemented", err)
	}
}

func splitPair(i lab.Identity) (chain, key []byte) { return i.Chain, i.Key }
