package main

import "github.com/pilotlight/pilotlight/internal/setting"

func (s *settings) webhookSettings() []setting.Setting {
	w := &s.Webhooks
	return []setting.Setting{
		{
			Name: "webhookAddr", Default: ":15017", Kind: setting.Listen(&s.Addresses.Webhooks, false),
			Help: "address of the admission webhooks, HTTPS; used when one of the configurations below is named",
		},
		{
			Name: "mutatingWebhookConfiguration", Kind: setting.Text(&w.Mutating, "a name"),
			Help: "MutatingWebhookConfiguration whose webhooks call /inject here; the roots of their certificate are written into it, and again when they are lost",
		},
		{
			Name: "validatingWebhookConfiguration", Kind: setting.Text(&w.Validating, "a name"),
			Help: "ValidatingWebhookConfiguration whose webhooks call /validate here, which refuses Istio objects that discovery would refuse; the same",
		},
		{
			Name: "webhookService", Kind: object(&w.Service),
			Help: "Service before the webhooks, as NAMESPACE/NAME; webhooks of other Services are left alone",
		},
		{
			Name: "webhookSecret", Default: "discovery-webhook", Kind: setting.Name(&w.Secret, "a name"),
			Help: "Secret, in the Service's namespace, that holds the certificate for all replicas; it is made and renewed here. One that somebody else has made is left alone",
		},
		{
			Name: "webhookHosts", Kind: setting.List(&w.Hosts),
			Help: "further names and addresses of the certificate, for webhooks that call a URL",
		},
		{
			Name: "injectConfigMap", Kind: object(&w.Injection),
			Help: "ConfigMap of what /inject injects, as NAMESPACE/NAME: its keys config and template, read again when they change; until it is there and " +
				"is sound, /inject has no answer. If empty, the defaults",
		},
	}
}
