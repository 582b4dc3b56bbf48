package ads

import (
	"context"
	"crypto/x509"
	"math"
	"net/netip"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	security "istio.io/api/security/v1alpha1"
)

// certificateService answers Istio's CreateCertificate, with which Istio's own agent gets its certificates. Its errors
// are those of Own.Sign.
type certificateService struct {
	security.UnimplementedIstioCertificateServiceServer
	*Server
	sign func(context.Context, Application) ([]string, error)
}

// CreateCertificate returns the leaf, the certificates above it, and all roots as the last element.
func (s certificateService) CreateCertificate(ctx context.Context, r *security.IstioCertificateRequest) (*security.IstioCertificateResponse, error) {
	at := connInfoOf(ctx)
	if at.intake != nil { // gRPC has read the request
		at.intake.Opened()
		at.intake.Awaits()
		at.intake.Handled(proto.Size(r))
		defer at.intake.Closed()
	}
	for _, field := range []string{"ImpersonatedIdentity", "CertSigner"} {
		if r.GetMetadata().GetFields()[field].GetStringValue() != "" {
			return nil, status.Errorf(codes.InvalidArgument, "metadata %s is not served", field)
		}
	}
	a := Application{Token: tokenOf(ctx), CSR: []byte(r.GetCsr()), TTL: seconds(r.GetValidityDuration())}
	if info, isTLS := at.AuthInfo.(credentials.TLSInfo); isTLS {
		a.Chains = info.State.VerifiedChains
	}
	if at.conn != nil {
		a.Address = addressOf(at.conn)
	}
	chain, err := s.sign(ctx, a)
	if err != nil {
		return nil, err
	}
	return &security.IstioCertificateResponse{CertChain: chain}, nil
}

// seconds returns a number of seconds as a duration: 0 for a negative one, and the longest duration for a longer one.
func seconds(n int64) time.Duration {
	return time.Duration(min(max(n, 0), math.MaxInt64/int64(time.Second))) * time.Second
}

// Application is what a client shows, and its request for a certificate; a stream has none.
type Application struct {
	Chains  [][]*x509.Certificate // of the client's certificate, verified
	Token   string                // "" for none
	Address netip.Addr
	CSR     []byte
	TTL     time.Duration // 0 for the default
}
