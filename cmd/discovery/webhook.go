package main

import (
	"errors"

	"github.com/pilotlight/pilotlight/discovery/plane"
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
	admitUnenforced      bool
}

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
			Name: "admitUnenforcedPolicies", Default: "false", Kind: setting.Bool(&w.admitUnenforced),
			Help: "/validate admits AuthorizationPolicy, PeerAuthentication and RequestAuthentication, which nothing enforces here, with a warning; it refuses them otherwise",
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
	case w.admitUnenforced && w.validating == "":
		faults = append(faults, errors.New("--admitUnenforcedPolicies is given without --validatingWebhookConfiguration"))
	case w.used() && w.service == "":
		faults = append(faults, errors.New("--webhookService is missing: --mutatingWebhookConfiguration and --validatingWebhookConfiguration need it"))
	case !w.used() && w.service != "":
		faults = append(faults, errors.New("--webhookService is given, and neither --mutatingWebhookConfiguration nor --validatingWebhookConfiguration"))
	}
	return faults
}

// served returns the webhooks.
func (w webhooks) served() plane.Webhooks {
	return plane.Webhooks{
		Service: nameOf(w.service), Secret: w.secret, Hosts: w.hosts, Mutating: w.mutating, Validating: w.validating,
		Injection: nameOf(w.injectConfigMap), AdmitUnenforced: w.admitUnenforced,
	}
}
