package main

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/pilotlight/pilotlight/discovery"
	"github.com/pilotlight/pilotlight/discovery/inject"
	"github.com/pilotlight/pilotlight/discovery/inject/admission"
	"github.com/pilotlight/pilotlight/discovery/model"
	"github.com/pilotlight/pilotlight/discovery/webhook"
	"github.com/pilotlight/pilotlight/internal/setting"
)

// webhooks are the admission webhooks that the API server calls here.
type webhooks struct {
	address              string
	service              string // NAMESPACE/NAME
	secret               string
	hosts                []string
	mutating, validating string // names of the configurations; empty for none
	injectConfigMap      string // NAMESPACE/NAME; empty for the defaults
}

// proxyConfigSources are the sources of MeshConfig and ProxyConfig objects without which no Pod is injected, even if
// proxies are served without them. Not among them are sources that may run in Pods that are injected.
var proxyConfigSources = []string{"meshConfig", "meshConfigMap", "config", "kubernetesConfig"}

// maxReviews bounds the connections of the webhooks. An API server has one for each review that it requests at the same
// time.
const maxReviews = 512

// reviewBounds returns the bounds of the webhooks' port. An API server keeps a connection for 90 seconds after its last
// request. If this end closed it first, a request could meet the close, and the API server does not repeat it: the Pod
// would be refused.
func reviewBounds() bounds { return bounds{maxReviews, 2 * time.Minute} }

func (s *settings) webhookSettings() []setting.Setting {
	w := &s.webhooks
	return []setting.Setting{
		{
			Name: "webhookAddr", Default: ":15017", Kind: setting.Listen(&w.address, false),
			Help: "address of the admission webhooks, HTTPS; used when one of the configurations below is named",
		},
		{
			Name: "mutatingWebhookConfiguration", Kind: setting.Text(&w.mutating, "a name"),
			Help: "MutatingWebhookConfiguration whose webhooks call /inject here; the roots of their certificate are written into it, and again when they are lost",
		},
		{
			Name: "validatingWebhookConfiguration", Kind: setting.Text(&w.validating, "a name"),
			Help: "ValidatingWebhookConfiguration whose webhooks call /validate here, which refuses Istio objects that discovery would refuse; the same",
		},
		{
			Name: "webhookService", Kind: setting.Text(&w.service, "NAMESPACE/NAME"),
			Help: "Service before the webhooks, as NAMESPACE/NAME; webhooks of other Services are left alone",
		},
		{
			Name: "webhookSecret", Default: "discovery-webhook", Kind: setting.Name(&w.secret, "a name"),
			Help: "Secret, in the Service's namespace, that holds the certificate for all replicas; it is made and renewed here. One that somebody else has made is left alone",
		},
		{
			Name: "webhookHosts", Kind: setting.List(&w.hosts),
			Help: "further names and addresses of the certificate, for webhooks that call a URL",
		},
		{
			Name: "injectConfigMap", Kind: setting.Text(&w.injectConfigMap, "NAMESPACE/NAME"),
			Help: "ConfigMap of what /inject injects, as NAMESPACE/NAME: its keys config and template, read again when they change; until it is there and " +
				"is sound, /inject has no answer. If empty, the defaults",
		},
	}
}

func (w webhooks) used() bool { return w.mutating != "" || w.validating != "" }

// descriptors returns how many descriptors the webhooks use, which proxies cannot have.
func (w webhooks) descriptors() int {
	if w.used() {
		return maxReviews
	}
	return 0
}

// webhookFaults returns the faults of these settings.
func (s *settings) webhookFaults() (faults []error) {
	w := s.webhooks
	for _, given := range []struct{ name, value string }{{"webhookService", w.service}, {"injectConfigMap", w.injectConfigMap}} {
		if given.value != "" && !twoNames(given.value) {
			faults = append(faults, s.origins.Fault(given.name, given.value, "NAMESPACE/NAME"))
		}
	}
	switch {
	case w.injectConfigMap != "" && w.mutating == "":
		faults = append(faults, errors.New("--injectConfigMap is given without --mutatingWebhookConfiguration"))
	case w.used() && w.service == "":
		faults = append(faults, errors.New("--webhookService is missing: --mutatingWebhookConfiguration and --validatingWebhookConfiguration need it"))
	case !w.used() && w.service != "":
		faults = append(faults, errors.New("--webhookService is given, and neither --mutatingWebhookConfiguration nor --validatingWebhookConfiguration"))
	}
	return faults
}

// injection returns the source of the injection's configuration; nil if Pods are not injected. served returns the mesh
// that proxies are served, nil before the first one, and sources the statuses of its sources.
func (s *settings) injection(served func() *model.Mesh, sources func() []discovery.SourceStatus, log *slog.Logger) *admission.Source {
	if s.webhooks.mutating == "" {
		return nil
	}
	namespace, name, _ := strings.Cut(s.webhooks.injectConfigMap, "/")
	layers := func(namespace string, labels map[string]string) ([]inject.Layer, error) {
		mesh := served()
		if mesh == nil {
			return nil, fmt.Errorf("%w: there is no mesh before its sources have synced", admission.ErrNotReady)
		}
		for _, source := range sources() {
			if source.Late && slices.Contains(proxyConfigSources, source.Name) {
				return nil, fmt.Errorf("%w: the source %s has not synced", admission.ErrNotReady, source.Name)
			}
		}
		return layersOf(mesh, namespace, labels)
	}
	return &admission.Source{Connect: s.cluster.connect, Namespace: namespace, Name: name, Domain: s.domain.String(), Layers: layers, Log: log}
}

// keeper returns the keeper of the webhooks' certificate.
func (s *settings) keeper(log *slog.Logger) *webhook.Keeper {
	w := s.webhooks
	namespace, name, _ := strings.Cut(w.service, "/")
	return &webhook.Keeper{
		Connect: s.cluster.connect, Service: webhook.Service{Namespace: namespace, Name: name, Domain: s.domain.String()}, Secret: w.secret, Hosts: w.hosts,
		Mutating: w.mutating, Validating: w.validating, Log: log, Now: time.Now,
	}
}
