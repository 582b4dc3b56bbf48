package main

import (
	"errors"
	"log/slog"
	"slices"
	"strconv"
	"strings"

	"github.com/pilotlight/pilotlight/discovery"
	configs "github.com/pilotlight/pilotlight/discovery/config/kubernetes"
	"github.com/pilotlight/pilotlight/discovery/ingress"
	"github.com/pilotlight/pilotlight/discovery/model"
	"github.com/pilotlight/pilotlight/discovery/secret"
	secrets "github.com/pilotlight/pilotlight/discovery/secret/kubernetes"
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
			Help: "serve the Ingresses of the API server that name this class, such as pilotlight, or an IngressClass whose controller is " + ingress.Controller +
				"; if empty, none",
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
	if c.class != "" && !slices.Contains(s.registries, kubernetesRegistry) {
		faults = append(faults, errors.New("--ingressClass is given, and --registries does not name Kubernetes"))
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
	}
	if _, _, ok := c.numbers(); !ok {
		faults = append(faults, s.origins.Fault("ingressPorts", strings.Join(c.ports, ","), "two ports, such as 80,443"))
	}
	if len(c.selector) == 0 {
		faults = append(faults, s.origins.Fault("ingressSelector", `""`, "one label or more: without any every gateway would serve Ingresses"))
	}
	return faults
}

// twoNames reports whether a text is two names with a slash between them.
func twoNames(text string) bool {
	namespace, name, found := strings.Cut(text, "/")
	return found && namespace != "" && name != "" && !strings.Contains(name, "/")
}

func (c ingressSettings) numbers() (plain, encrypted uint32, ok bool) {
	if len(c.ports) != 2 {
		return 0, 0, false
	}
	a, err := strconv.ParseUint(c.ports[0], 10, 16)
	b, also := strconv.ParseUint(c.ports[1], 10, 16)
	return uint32(a), uint32(b), err == nil && also == nil && a > 0 && b > 0 && a != b
}

// join adds the sources of Ingresses and of their Secrets, if Ingresses are served. It returns the writer of their
// addresses, nil for none.
func (c ingressSettings) join(server *discovery.Server, from cluster, d model.Domain, log *slog.Logger) (status *configs.IngressStatus) {
	if c.class == "" {
		return nil
	}
	namespace, account, _ := strings.Cut(c.identity, "/")
	plain, encrypted, _ := c.numbers()
	reader := secrets.New(from.connect)
	server.Secrets["ingressSecrets"] = reader
	source := configs.Ingress{
		Connect: from.connect, Cluster: from.id, Namespaces: from.namespaces, Secrets: named{reader, namespace, account},
		Options: ingress.Options{Class: c.class, Proxies: namespace, Selector: c.selector, HTTP: plain, HTTPS: encrypted, Domain: d},
	}
	if namespace, name, found := strings.Cut(c.service, "/"); found {
		status = configs.NewIngressStatus(from.connect, ingress.Name{Namespace: namespace, Name: name}, log)
		source.Show = status.Show
	}
	server.Sources["ingress"] = source
	return status
}

// named is a source of Secrets that the proxies of an identity may receive.
type named struct {
	*secrets.Source
	namespace, account string
}

// Want sets the Secrets to read.
func (n named) Want(names []ingress.Name) {
	var all []secrets.Wanted
	for _, name := range names {
		all = append(all, secrets.Wanted{
			Object: secret.Name{Namespace: name.Namespace, Name: name.Name}, Pair: true,
			As: secret.Name{Namespace: n.namespace, Name: ingress.Credential(name)}, Accounts: []string{n.account},
		})
	}
	n.Source.Want(all)
}

// Known returns the faults of the Secrets that were read.
func (n named) Known() map[ingress.Name]string {
	out := map[ingress.Name]string{}
	for name, fault := range n.Source.Known() {
		out[ingress.Name{Namespace: name.Namespace, Name: name.Name}] = fault
	}
	return out
}
