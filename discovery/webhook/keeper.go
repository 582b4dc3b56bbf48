package webhook

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
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
	firstPause  = time.Second // after an error, doubled
	longPause   = 30 * time.Second
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
	pause := firstPause
	for {
		began := time.Now()
		err := k.attempt(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if time.Since(began) > longPause {
			pause = firstPause
		}
		k.mu.Lock()
		k.failed = err
		k.mu.Unlock()
		k.Log.Error("the certificate of webhooks is not looked after", "err", err, "again", pause)
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil
		}
		pause = min(2*pause, longPause)
	}
}

// attempt follows the Secret and the configurations until something fails.
func (k *Keeper) attempt(ctx context.Context) error {
	client, err := k.Connect()
	if err != nil {
		return err
	}
	defer client.Close()
	secret := &kube.Watch{
		Resource: corev1.SchemeGroupVersion.WithResource("secrets"), Object: &corev1.Secret{},
		Namespace: k.Service.Namespace, Fields: "metadata.name=" + k.Secret,
	}
	watches := []*kube.Watch{secret}
	for _, c := range []struct{ name, kind, resource string }{
		{k.Mutating, mutatingKind, "mutatingwebhookconfigurations"},
		{k.Validating, validatingKind, "validatingwebhookconfigurations"},
	} {
		if c.name != "" {
			version := schema.GroupVersion{Group: "admissionregistration.k8s.io", Version: "v1"}
			watches = append(watches, &kube.Watch{Resource: version.WithResource(c.resource), Kind: c.kind, Fields: "metadata.name=" + c.name})
		}
	}
	g, ctx := errgroup.WithContext(ctx)
	events := make(chan kube.Event)
	for _, w := range watches {
		g.Go(func() error { return client.Follow(ctx, w, events) })
	}
	g.Go(func() error { return (&upkeep{Keeper: k, client: client, secret: secret}).run(ctx, events) })
	return g.Wait()
}
