package ads

import (
	"context"
	"crypto/tls"
	"net"
	"strings"
	"testing"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/pilotlight/pilotlight/discovery/ads/adstest"
	"github.com/pilotlight/pilotlight/discovery/ads/content"
	"github.com/pilotlight/pilotlight/discovery/model"
	"github.com/pilotlight/pilotlight/e2e/lab"
)

// A client without a certificate gets the configuration of the namespace that its token proves. A certificate decides where there is one, and is not
// helped by a token. A token is read once for a stream, and never in plain text.
func TestATokenProvesANamespace(t *testing.T) {
	a := newAuthority(t)
	pair, err := tls.X509KeyPair(splitPair(a.issue(2, "")))
	a.check(err)
	var asked []string
	own := &Own{
		Certificate: func() (*tls.Certificate, error) { return &pair, nil }, Roots: a.Pool, Web: func(c net.Conn) { _ = c.Close() }, Foreign: true,
		Prove: func(_ context.Context, shown Application) (string, error) {
			asked = append(asked, shown.Token)
			if id, known := strings.CutPrefix(shown.Token, "of "); known {
				return id, nil
			}
			return "", status.Error(codes.Unauthenticated, "refused")
		},
	}
	secure, err := NewTLS(Certificates{}, own)
	a.check(err)
	r := runWith(t, testLimits(), secure)
	r.Push(adstest.Mesh(1, "a"), model.Change{})
	const mine = "spiffe://cluster.local/ns/default/sa/app"
	for name, test := range map[string]struct {
		identities []lab.Identity
		token      string
		code       codes.Code
		text       string
		reads      int
	}{
		"its own":                              {nil, "Bearer of " + mine, codes.OK, "", 1},
		"another's":                            {nil, "Bearer of spiffe://cluster.local/ns/other/sa/app", codes.PermissionDenied, "its token is for \"spiffe://cluster.local/ns/other/sa/app\"", 1},
		"a foreign domain":                     {nil, "Bearer of spiffe://foreign.test/ns/default/sa/app", codes.PermissionDenied, "TRUST_DOMAIN of", 1},
		"no account":                           {nil, "Bearer of spiffe://cluster.local/ns/default", codes.PermissionDenied, "want spiffe://", 1},
		"no identity":                          {nil, "Bearer of nobody", codes.Internal, "not a SPIFFE ID", 1},
		"forged":                               {nil, "Bearer forged", codes.Unauthenticated, "refused", 1},
		"none":                                 {nil, "", codes.PermissionDenied, "no certificate", 0},
		"without Bearer":                       {nil, "of " + mine, codes.PermissionDenied, "no certificate", 0},
		"empty":                                {nil, "Bearer ", codes.PermissionDenied, "no certificate", 0},
		"a certificate, and a forged token":    {[]lab.Identity{a.issue(3, mine)}, "Bearer forged", codes.OK, "", 0},
		"another's certificate, and its token": {[]lab.Identity{a.issue(3, "spiffe://cluster.local/ns/other/sa/app")}, "Bearer of " + mine, codes.PermissionDenied, "its certificate is for", 0},
	} {
		t.Run(name, func(t *testing.T) {
			asked = nil
			client := r.dial(a.client(nil, test.identities...))
			defer client.Close()
			ctx, cancel := context.WithTimeout(metadata.AppendToOutgoingContext(t.Context(), "authorization", test.token), adstest.Deadline)
			defer cancel()
			stream, err := discoveryv3.NewAggregatedDiscoveryServiceClient(client).StreamAggregatedResources(ctx)
			a.check(err)
			for _, request := range []*discoveryv3.DiscoveryRequest{{Node: adstest.Node(), TypeUrl: content.ClusterType}, {TypeUrl: content.ListenerType}} {
				a.check(stream.Send(request))
				if _, err = stream.Recv(); err != nil {
					break
				}
			}
			code, text := status.Code(err), status.Convert(err).Message()
			if code != test.code || !strings.Contains(text, test.text) {
				t.Errorf("got %s %q, want %s with %q", code, text, test.code, test.text)
			}
			if len(asked) != test.reads {
				t.Errorf("the tokens %q were read, want %d", asked, test.reads)
			}
		})
	}
	if n := testutil.ToFloat64(r.metrics.resets.WithLabelValues("error")); n != 1 {
		t.Errorf("%v streams ended by an error, want that with no identity: the others were refused", n)
	}
}
