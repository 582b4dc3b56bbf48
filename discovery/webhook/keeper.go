package webhook

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pilotlight/pilotlight/discovery/kube"
)

// Keeper keeps the certificate of the webhooks in a Secret, and writes its roots into the configurations that name the
// webhooks.
type Keeper struct {
	Connect    func() (*kube.Client, error) // called by each attempt, which closes the client's connections at its end
	Service    Service
	Secret     string   // its name, in the Service's namespace
	Hosts      []string // further names and addresses of the certificate, for webhooks with a URL
	Mutating   string   // name of the MutatingWebhookConfiguration; empty for none
	Validating string   // name of the ValidatingWebhookConfiguration; empty for none
	Log        *slog.Logger
	Now        func() time.Time // time.Now

	mu        sync.Mutex
	pairs     *pairs         // nil until there is a certificate
	failed    error          // of the last attempt
	unwritten []string       // the configurations without the roots, with the reason
	writes    map[string]int // of the roots, by kind of configuration
}

const (
	mutatingKind   = "MutatingWebhookConfiguration"
	validatingKind = "ValidatingWebhookConfiguration"

	lookAgain   = time.Minute // how often the time is checked
	writeAgain  = time.Second // the shortest time between two writes: another program may write the same field again and again
	callTimeout = 10 * time.Second
)

// TLS returns the configuration of TLS for serving webhooks. Until there is a certificate, connections fail.
func (k *Keeper) TLS() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}, GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		k.mu.Lock()
		defer k.mu.Unlock()
		if k.pairs == nil {
			return nil, errors.Join(errors.New("there is no certificate of webhooks yet"), k.failed)
		}
		return &k.pairs.served(k.names(), k.Now()).tls, nil
	}}
}

func (k *Keeper) names() []string { return slices.Concat(k.Service.names(), k.Hosts) }

// Run keeps the Secret and the configurations up to date until ctx is done. After an error, which is logged, it tries
// again.
func (k *Keeper) Run(ctx context.Context) error {
	kube.Keep(ctx, k.Connect, k.follow, func(err error, again time.Duration) {
		k.mu.Lock()
		k.failed = err
		k.mu.Unlock()
		k.Log.Error("the certificate of webhooks is not looked after", "err", err, "again", again)
	})
	return nil
}

// follow follows the Secret and the configurations until ctx is done or something fails.
func (k *Keeper) follow(ctx context.Context, s *kube.Session) error {
	u := &upkeep{Keeper: k, session: s, secret: kube.OneSecret(k.Service.Namespace, k.Secret)}
	s.Start(u.secret)
	for _, c := range []struct{ name, kind string }{{k.Mutating, mutatingKind}, {k.Validating, validatingKind}} {
		if c.name != "" {
			s.Start(&kube.Watch{Resource: resourceOf(c.kind), Kind: c.kind, Fields: "metadata.name=" + c.name})
		}
	}
	return u.run(ctx)
}

// resourceOf returns the resource of a kind of configuration.
func resourceOf(kind string) schema.GroupVersionResource {
	version := schema.GroupVersion{Group: "admissionregistration.k8s.io", Version: "v1"}
	return version.WithResource(strings.ToLower(kind) + "s")
}
