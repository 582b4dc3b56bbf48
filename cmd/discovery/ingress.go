package main

import (
	"errors"
	"strconv"
	"strings"

	"github.com/pilotlight/pilotlight/discovery/ingress"
	"github.com/pilotlight/pilotlight/discovery/plane"
	"github.com/pilotlight/pilotlight/internal/setting"
)

// ingressSettings select the Ingresses that are served, and the proxies that serve them.
type ingressSettings struct {
	class    string // "" for none
	selector map[string]string
	identity string   // NAMESPACE/ACCOUNT of the proxies
	ports    []string // of HTTP and HTTPS
	service  string   // NAMESPACE/NAME before the proxies; "" for none
}

func (s *settings) ingresses() []setting.Setting {
	return []setting.Setting{
		{
			Name: "ingressClass", Kind: setting.Text(&s.ingress.class, "a class of Ingresses"),
			Help: "serve the Ingresses of --registries Kubernetes and of --configDir that name this class, such as pilotlight, or an IngressClass whose controller is " +
				ingress.Controller + "; if empty, none",
		},
		{
			Name: "ingressSelector", Default: "istio=ingressgateway", Kind: setting.Pairs(&s.ingress.selector),
			Help: "labels of the proxies that serve Ingresses",
		},
		{
			Name: "ingressIdentity", Default: "istio-system/ingressgateway", Kind: setting.Text(&s.ingress.identity, "NAMESPACE/ACCOUNT"),
			Help: "namespace and service account of these proxies: the certificates of Ingresses are sent to them alone, over mutual TLS",
		},
		{
			Name: "ingressPorts", Default: "80,443", Kind: setting.List(&s.ingress.ports),
			Help: "ports of these proxies for HTTP and HTTPS",
		},
		{
			Name: "ingressService", Kind: setting.Text(&s.ingress.service, "NAMESPACE/NAME"),
			Help: "Service before these proxies, as NAMESPACE/NAME: its external addresses, or those of the nodes of its Pods, are written into the status of " +
				"Ingresses by the replica that holds the Lease; if empty, none are",
		},
	}
}

// ingressFaults returns the faults of these settings.
func (s *settings) ingressFaults() (faults []error) {
	c := s.ingress
	inCluster := s.inCluster()
	if c.class != "" && !inCluster && s.configDir == "" {
		faults = append(faults, errors.New("--ingressClass is given, and there are no Ingresses: want --configDir, or Kubernetes in --registries"))
	}
	if !twoNames(c.identity) {
		faults = append(faults, s.origins.Fault("ingressIdentity", c.identity, "NAMESPACE/ACCOUNT"))
	}
	switch {
	case c.service == "":
	case !twoNames(c.service):
		faults = append(faults, s.origins.Fault("ingressService", c.service, "NAMESPACE/NAME"))
	case c.class == "":
		faults = append(faults, errors.New("--ingressService is given without --ingressClass, whose Ingresses it is about"))
	case !inCluster:
		faults = append(faults, errors.New("--ingressService is given, and --registries does not name Kubernetes, whose Ingresses have a status"))
	}
	if _, _, ok := c.numbers(); !ok {
		faults = append(faults, s.origins.Fault("ingressPorts", strings.Join(c.ports, ","), "two ports, such as 80,443"))
	}
	if len(c.selector) == 0 {
		faults = append(faults, s.origins.Fault("ingressSelector", `""`, "one label or more: without any every gateway would serve Ingresses"))
	}
	return faults
}

func (c ingressSettings) numbers() (plain, encrypted uint32, ok bool) {
	if len(c.ports) != 2 {
		return 0, 0, false
	}
	a, err := strconv.ParseUint(c.ports[0], 10, 16)
	b, also := strconv.ParseUint(c.ports[1], 10, 16)
	return uint32(a), uint32(b), err == nil && also == nil && a > 0 && b > 0 && a != b
}

// served returns what the settings select.
func (c ingressSettings) served() plane.Ingress {
	plain, encrypted, _ := c.numbers()
	return plane.Ingress{
		Class: c.class, Selector: c.selector, Identity: nameOf(c.identity), HTTP: plain, HTTPS: encrypted, Service: nameOf(c.service),
	}
}
