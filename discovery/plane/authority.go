package plane

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/pilotlight/pilotlight/discovery/ads"
	"github.com/pilotlight/pilotlight/discovery/ca"
	"github.com/pilotlight/pilotlight/discovery/ca/issuer"
	"github.com/pilotlight/pilotlight/discovery/ca/kubernetes"
	"github.com/pilotlight/pilotlight/discovery/ca/server"
	"github.com/pilotlight/pilotlight/discovery/ca/store"
	"github.com/pilotlight/pilotlight/discovery/kube"
	"github.com/pilotlight/pilotlight/discovery/model"
)

const (
	// ownAccount is the service account of discovery's own certificate, which agents expect by default.
	ownAccount = "istio-pilot-service-account"
)

// authority is an authority while it is served. A nil one is none.
type authority struct {
	server *server.Server
	mine   *server.Own
	log    *slog.Logger

	reviewer *kubernetes.Reviewer // nil without a cluster
	shared   *kubernetes.Shared   // nil for an authority of files
	tokens   *kubernetes.Tokens   // likewise
	issuers  *issuer.Issuers      // nil without --caIssuers
	files    *fileAuthority       // nil for an authority that replicas share
	reload   func() error         // of the roots that the secure port trusts
}

// newAuthority opens the authority; nil if none is used. served returns the mesh that proxies are served, nil before
// the first one.
func newAuthority(c Config, served func() *model.Mesh) (*authority, error) {
	a := c.Authority
	if !a.Used {
		return nil, nil
	}
	o := &authority{log: c.Log, reload: func() error { return nil }}
	authority, own, err := o.source(c)
	if err != nil {
		return nil, err
	}
	settings := func() (model.Settings, bool) {
		if m := served(); m != nil {
			return m.Settings(), true
		}
		return model.Settings{}, false
	}
	config := server.Config{
		Authority: authority, Terms: a.Terms, JoinTokens: store.Tokens(a.Dir), Log: c.Log, Now: time.Now,
		TrustDomains: func() []string {
			if s, known := settings(); known {
				return s.TrustDomains()
			}
			return nil
		},
	}
	if o.shared != nil {
		o.tokens = &kubernetes.Tokens{Connect: c.Cluster.connect, In: kubernetes.TokensBeside(o.shared.In)}
		config.JoinTokens = o.tokens
	}
	if a.Issuers != "" { // before the API server: an issuer that is configured is that for its tokens
		if o.issuers, err = issuer.Open(a.Issuers, func() string { s, _ := settings(); return s.RootNamespace() }, c.Log, time.Now); err != nil {
			return nil, fmt.Errorf("--caIssuers: %w", err)
		}
		config.Further = append(config.Further, o.issuers)
	}
	if c.inCluster() {
		o.reviewer = kubernetes.NewReviewer(c.Cluster.connect)
		config.Further = append(config.Further, o.reviewer)
	}
	o.server = server.New(config)
	o.mine = &server.Own{
		Authority: own, Names: ownNames(c), Life: a.Terms.Default, Now: time.Now,
		Identity: func() ca.Identity {
			s, _ := settings()
			return ca.Identity{TrustDomain: s.TrustDomains()[0], Namespace: s.RootNamespace(), ServiceAccount: ownAccount}
		},
	}
	return o, nil
}

// source returns how the authority is known: that of files, or the one that replicas share, which is known when it was
// read. own is the one that signs discovery's own certificate.
func (o *authority) source(c Config) (signing, own func() *ca.Authority, err error) {
	a := c.Authority
	if a.Secret != (Name{}) {
		o.shared = &kubernetes.Shared{
			Connect: c.Cluster.connect, In: kubernetes.At(a.Secret), Replica: c.Replica, Terms: a.Terms, Overlap: a.Overlap, Log: c.Log, Now: time.Now,
			Issued: func(roots []byte) (live, with int) { return o.server.Issued(roots) },
			Changed: func() {
				if err := o.reload(); err != nil {
					c.Log.Error("the secure port does not trust the authority", "err", err)
				}
			},
		}
		return o.shared.Signing, func() *ca.Authority { return o.shared.State().Own }, nil
	}
	if _, err := dirOf(a.Dir); err != nil {
		return nil, nil, fmt.Errorf("--caDir: %w", err)
	}
	state, made, err := store.Open(a.Dir, time.Now())
	if err != nil {
		return nil, nil, fmt.Errorf("--caDir: %w", err)
	}
	if made {
		c.Log.Warn("a new root was made, since --caDir had none: no certificate of another root is trusted", "caDir", a.Dir, "root", state.Authority.Name())
	} else {
		c.Log.Info("authority read", "caDir", a.Dir, "issuer", state.Authority.Name(), "until", state.Authority.Ends(), "rotation", state.Rotation.Phase)
	}
	o.files = &fileAuthority{dir: a.Dir, terms: a.Terms, overlap: a.Overlap, log: c.Log, state: state, changed: func() error { return o.reload() }}
	if c.StateDir != "" {
		o.files.copies = filepath.Join(c.StateDir, "authority")
	}
	o.files.open(time.Now())
	return o.files.signing, o.files.own, nil
}

// publisher returns what writes the roots into each namespace; nil for nothing.
func (o *authority) publisher(c Config) kube.Lead {
	if o == nil || o.shared == nil {
		return nil
	}
	p := &kubernetes.Publisher{Namespaces: c.Cluster.Namespaces, Log: c.Log, Roots: func() []byte {
		if authority := o.shared.State().Authority; authority != nil {
			return authority.Roots()
		}
		return nil
	}}
	return p.Run
}

// lacks returns what is missing before a certificate can be signed; "" for nothing.
func (o *authority) lacks() string {
	if o == nil || o.shared == nil || o.shared.State().Authority != nil {
		return ""
	}
	return "there is no authority yet"
}

// lines returns a line for each fault.
func (o *authority) lines() []string {
	if o == nil {
		return nil
	}
	var out []string
	if o.files != nil {
		out = append(out, o.files.lines()...)
	}
	if o.shared != nil {
		out = append(out, o.shared.Lines()...)
	}
	if o.issuers != nil {
		out = append(out, o.issuers.Faults()...)
	}
	return out
}

// ownNames returns the DNS names and addresses of discovery's own certificate: those of its Service, this host's, and
// those given.
func ownNames(c Config) []string {
	out := []string{"localhost", "127.0.0.1", "::1"}
	namespace := cmp.Or(c.Webhooks.Service.Namespace, c.Cluster.Lease.Namespace)
	for _, service := range []string{"discovery", "istio-pilot", "istiod", c.Webhooks.Service.Name} {
		if service != "" && namespace != "" {
			out = append(out, service+"."+namespace+".svc", service+"."+namespace+".svc."+c.Domain.String())
		}
	}
	if host, err := os.Hostname(); err == nil && host != "" {
		out = append(out, host)
	}
	return slices.Compact(slices.Sorted(slices.Values(append(out, c.Authority.Hosts...))))
}

// own returns what the secure port has besides: conns take HTTP.
func (o *authority) own(conns *handedConns, foreign bool) *ads.Own {
	if o == nil {
		return &ads.Own{Web: conns.give, Foreign: foreign}
	}
	return &ads.Own{Web: conns.give, Foreign: foreign, Certificate: o.mine.Certificate, Roots: o.pool, Sign: o.sign, Prove: o.prove}
}

// pool returns the roots of clients' certificates.
func (o *authority) pool() *x509.CertPool {
	if authority := o.server.Authority(); authority != nil {
		return authority.Pool()
	}
	return x509.NewCertPool()
}

// sign answers Istio's CreateCertificate.
func (o *authority) sign(ctx context.Context, a ads.Application) (chain []string, err error) {
	issued, err := o.server.Issue(ctx, server.Caller{Chains: a.Chains, Token: a.Token, Address: a.Address}, a.CSR, a.TTL)
	if err != nil {
		return nil, statusOf(err)
	}
	for _, text := range issued.Chain {
		chain = append(chain, string(text))
	}
	return append(chain, string(issued.Roots)), nil
}

// prove answers for streams of clients without a certificate.
func (o *authority) prove(ctx context.Context, a ads.Application) (string, error) {
	id, err := o.server.Prove(ctx, server.Caller{Token: a.Token, Address: a.Address})
	if err != nil {
		return "", statusOf(err)
	}
	return id.String(), nil
}

// statusOf returns what a client of gRPC gets of an error: of a refusal nothing but that.
func statusOf(err error) error {
	var refusal *server.Refusal
	var busy *server.Busy
	switch {
	case errors.As(err, &refusal):
		return status.Error(codes.Unauthenticated, "refused")
	case errors.As(err, &busy) && busy.Cause == "rate":
		return later(codes.ResourceExhausted, "too many requests", busy.After)
	case errors.As(err, &busy):
		return later(codes.Unavailable, "not now", busy.After)
	default:
		return status.Error(codes.InvalidArgument, err.Error())
	}
}

// later says when a client of gRPC shall come again: to people, and as Google's RetryInfo.
func later(code codes.Code, text string, after time.Duration) error {
	s := status.Newf(code, "%s, come again after %s", text, after.Round(time.Millisecond))
	if told, err := s.WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(after)}); err == nil {
		s = told
	}
	return s.Err()
}

// close closes the connections to the API server, once no door asks it any more.
func (o *authority) close() {
	if o.reviewer != nil {
		o.reviewer.Close()
	}
	if o.tokens != nil {
		o.tokens.Close()
	}
}

// run keeps the authority until ctx is done.
func (o *authority) run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	if o.shared != nil {
		g.Go(func() error { return o.shared.Run(ctx) })
	}
	if o.files != nil {
		g.Go(func() error { return o.files.run(ctx, o.server.Issued) })
	}
	if o.issuers != nil {
		g.Go(func() error { return onChange(ctx, o.log, o.issuers.Reload, o.issuers.Files()...) })
	}
	return g.Wait()
}

// collectors returns the metrics of the authority.
func (o *authority) collectors() []prometheus.Collector {
	if o == nil {
		return nil
	}
	return []prometheus.Collector{o.server}
}
