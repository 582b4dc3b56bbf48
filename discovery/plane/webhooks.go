package plane

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/pilotlight/pilotlight/discovery"
	configs "github.com/pilotlight/pilotlight/discovery/config/kubernetes"
	"github.com/pilotlight/pilotlight/discovery/inject"
	"github.com/pilotlight/pilotlight/discovery/inject/admission"
	"github.com/pilotlight/pilotlight/discovery/model"
	"github.com/pilotlight/pilotlight/discovery/webhook"
)

// maxReviews bounds the connections of the webhooks. An API server has one for each review that it requests at the same
// time.
const maxReviews = 512

// reviewBounds returns the bounds of the webhooks' port. An API server keeps a connection for 90 seconds after its last
// request. If this end closed it first, a request could meet the close, and the API server does not repeat it: the Pod
// would be refused.
func reviewBounds() bounds { return bounds{maxReviews, 2 * time.Minute} }

// webhooks are the webhooks while they are served. A nil one serves none.
type webhooks struct {
	keeper    *webhook.Keeper
	injection *admission.Source // nil if Pods are not injected
	handler   *webhook.Handler
	log       *slog.Logger
}

// newWebhooks returns the webhooks; nil if none are served. served returns the mesh that proxies are served, nil before
// the first one, and sources the statuses of its sources.
func newWebhooks(c Config, served func() *model.Mesh, sources func() []discovery.SourceStatus) *webhooks {
	if !c.Webhooks.Used() {
		return nil
	}
	h := &webhooks{keeper: c.keeper(), injection: c.injection(served, sources), log: c.Log}
	reviews := map[string]webhook.Review{}
	if h.injection != nil {
		reviews["/inject"] = h.injection.Review
	}
	if c.Webhooks.Validating != "" {
		reviews["/validate"] = configs.Reviewer{}.Review
	}
	h.handler = webhook.NewHandler(reviews, c.Log)
	return h
}

// injection returns the source of the injection's configuration; nil if Pods are not injected.
func (c Config) injection(served func() *model.Mesh, sources func() []discovery.SourceStatus) *admission.Source {
	if c.Webhooks.Mutating == "" {
		return nil
	}
	layers := func(namespace string, labels map[string]string) ([]inject.Layer, error) {
		mesh := served()
		if err := injectable(mesh != nil, sources()); err != nil {
			return nil, fmt.Errorf("%w: %w", admission.ErrNotReady, err)
		}
		return Layers(mesh, namespace, labels)
	}
	at := c.Webhooks.Injection
	return &admission.Source{
		Connect: c.Cluster.connect, Namespace: at.Namespace, Name: at.Name, Domain: c.Domain.String(), Layers: layers, Log: c.Log,
	}
}

// keeper returns the keeper of the webhooks' certificate.
func (c Config) keeper() *webhook.Keeper {
	w := c.Webhooks
	return &webhook.Keeper{
		Connect: c.Cluster.connect, Service: webhook.Service{Namespace: w.Service.Namespace, Name: w.Service.Name, Domain: c.Domain.String()},
		Secret: w.Secret, Hosts: w.Hosts, Mutating: w.Mutating, Validating: w.Validating, Log: c.Log, Now: time.Now,
	}
}

// run serves the webhooks until ctx is done. It logs once if they are not served within patience; zero for never.
func (h *webhooks) run(ctx context.Context, l net.Listener, patience time.Duration) error {
	g, ctx := errgroup.WithContext(ctx)
	if h.injection != nil {
		g.Go(func() error { return h.injection.Run(ctx) })
	}
	g.Go(func() error { return h.keeper.Run(ctx) })
	g.Go(func() error {
		return serveHTTP(ctx, tls.NewListener(l, h.keeper.TLS()), h.handler, reviewBounds(), h.log)
	})
	if patience > 0 {
		g.Go(func() error { h.tell(ctx, patience); return nil })
	}
	return g.Wait()
}

// tell logs that discovery is ready without the webhooks, if it is.
func (h *webhooks) tell(ctx context.Context, patience time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(patience):
		if lacks := h.lacks(); lacks != "" {
			h.log.Error("webhooks are not served within their deadline, discovery is ready without them", "reason", lacks, "faults", h.lines())
		}
	}
}

// lacks returns what the webhooks need before they can answer; "" if they can. What they once have they keep.
func (h *webhooks) lacks() string {
	if h == nil {
		return ""
	}
	var out []string
	if !h.keeper.Serves() {
		out = append(out, "there is no certificate of webhooks yet")
	}
	if h.injection != nil && h.injection.Injector() == nil {
		out = append(out, "there is no configuration of injection yet")
	}
	return strings.Join(out, ", ")
}

// lines returns a line for each fault.
func (h *webhooks) lines() []string {
	if h == nil {
		return nil
	}
	out := h.keeper.Lines()
	if h.injection != nil {
		out = append(out, h.injection.Lines()...)
	}
	return out
}

// collectors returns the metrics of the webhooks.
func (h *webhooks) collectors() []prometheus.Collector {
	switch {
	case h == nil:
		return nil
	case h.injection == nil:
		return []prometheus.Collector{h.keeper, h.handler}
	default:
		return []prometheus.Collector{h.keeper, h.handler, h.injection}
	}
}
