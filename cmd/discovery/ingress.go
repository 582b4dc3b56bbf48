package main

import (
	"github.com/pilotlight/pilotlight/discovery/ingress"
	"github.com/pilotlight/pilotlight/discovery/plane"
	"github.com/pilotlight/pilotlight/internal/setting"
)

func (s *settings) ingresses() []setting.Setting {
	return []setting.Setting{
		{
			Name: "ingressClass", Kind: setting.Text(&s.Ingress.Class, "a class of Ingresses"),
			Help: "serve the Ingresses of --registries Kubernetes and of --configDir that name this class, such as pilotlight, or an IngressClass whose controller is " +
				ingress.Controller + "; if empty, none",
		},
		{
			Name: "ingressSelector", Default: "istio=ingressgateway", Kind: setting.Pairs(&s.Ingress.Selector),
			Help: "labels of the proxies that serve Ingresses",
		},
		{
			Name: "ingressIdentity", Default: "istio-system/ingressgateway", Kind: setting.Parsed(&s.Ingress.Identity, "name", "NAMESPACE/ACCOUNT", plane.ParseName),
			Help: "namespace and service account of these proxies: the certificates of Ingresses are sent to them alone, over mutual TLS",
		},
		{
			Name: "ingressPorts", Default: "80,443", Kind: setting.Parsed(&s.Ingress.Ports, "ports", "two ports", plane.ParsePorts).Such("80,443"),
			Help: "ports of these proxies for HTTP and HTTPS",
		},
		{
			Name: "ingressService", Kind: object(&s.Ingress.Service),
			Help: "Service before these proxies, as NAMESPACE/NAME: its external addresses, or those of the nodes of its Pods, are written into the status of " +
				"Ingresses by the replica that holds the Lease; if empty, none are",
		},
		{
			Name: "gatewaySecrets", Kind: setting.Parsed(&s.GatewaySecrets, "names", "NAMESPACE/ACCOUNT, with commas between several", plane.ParseNames),
			Help: "namespaces and service accounts of gateways, as NAMESPACE/ACCOUNT, that get the Secrets which Gateways of that namespace name by " +
				"credentialName: of type kubernetes.io/tls, or with the keys cert, key and cacert; if empty, no Secret is read for Gateways",
		},
	}
}
