package main

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/pilotlight/pilotlight/discovery"
	configs "github.com/pilotlight/pilotlight/discovery/config/kubernetes"
	"github.com/pilotlight/pilotlight/discovery/inject/admission"
	"github.com/pilotlight/pilotlight/discovery/model"
	"github.com/pilotlight/pilotlight/discovery/webhook"
)

// hooks are the webhooks while they are served.
type hooks struct {
	keeper    *webhook.Keeper
	injection *admission.Source // nil if Pods are not injected
	handler   *webhook.Handler
	patience  time.Duration // how long discovery is not ready without them; 0 for ever
	began     time.Time
	log       *slog.Logger
}

// hooks returns the webhooks; nil if none are served. served and sources are those of injection.
func (s *settings) hooks(served func() *model.Mesh, sources func() []discovery.SourceStatus, log *slog.Logger) *hooks {
	if !s.webhooks.used() {
		return nil
	}
	h := &hooks{keeper: s.keeper(log), injection: s.injection(served, sources, log), patience: s.syncTimeout, began: time.Now(), log: log}
	reviews := map[string]webhook.Review{}
	if h.injection != nil {
		reviews["/inject"] = h.injection.Review
	}
	if s.webhooks.validating != "" {
		reviews["/validate"] = configs.Review
	}
	h.handler = webhook.NewHandler(reviews, log)
	return h
}

// run serves the webhooks until ctx is done.
func (h *hooks) run(ctx context.Context, l net.Listener) error {
	g, ctx := errgroup.WithContext(ctx)
	if h.injection != nil {
		g.Go(func() error { return h.injection.Run(ctx) })
	}
	g.Go(func() error { return h.keeper.Run(ctx) })
	g.Go(func() error {
		return serveHTTP(ctx, tls.NewListener(l, h.keeper.TLS()), h.handler, reviewBounds(), h.log)
	})
	g.Go(func() error { h.tell(ctx); return nil })
	return g.Wait()
}

// tell logs that discovery is ready without the webhooks, if it is.
func (h *hooks) tell(ctx context.Context) {
	if h.patience == 0 {
		return
	}
	select {
	case <-ctx.Done():
	case <-time.After(h.patience):
		if lacks := h.lacks(); lacks != "" {
			h.log.Error("webhooks are not served within their deadline, discovery is ready without them", "reason", lacks, "faults", h.lines())
		}
	}
}

// lacks returns what the webhooks need before they can answer; "" if they can. What they once have they keep.
func (h *hooks) lacks() string {
	var out []string
	if !h.keeper.Serves() {
		out = append(out, "there is no certificate of webhooks yet")
	}
	if h.injection != nil && h.injection.Injector() == nil {
		out = append(out, "there is no configuration of injection yet")
	}
	return strings.Join(out, ", ")
}

// awaited returns what discovery waits for before it is ready; "" if for nothing. It does not wait longer than for a
// source: proxies need discovery also where nobody can make a certificate.
func (h *hooks) awaited(now time.Time) string {
	if h == nil || h.patience > 0 && now.Sub(h.began) >= h.patience {
		return ""
	}
	return h.lacks()
}

// lines returns a line for each fault.
func (h *hooks) lines() []string {
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
func (h *hooks) collectors() []prometheus.Collector {
	switch {
	case h == nil:
		return nil
	case h.injection == nil:
		return []prometheus.Collector{h.keeper, h.handler}
	default:
		return []prometheus.Collector{h.keeper, h.handler, h.injection}
	}
}
