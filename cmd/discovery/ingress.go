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
	"github.com/pilotlight/pilotlight/discovery/ingress/source"
	"github.com/pilotlight/pilotlight/discovery/model"
	"github.com/pilotlight/pilotlight/discovery/registry/manifest"
	"github.com/pilotlight/pilotlight/discovery/secret"
	secretfile "github.com/pilotlight/pilotlight/discovery/secret/file"
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
	inCluster := slices.Contains(s.registries, kubernetesRegistry)
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

// ingresses serve the Ingresses of all stores. A nil one serves none.
type ingresses struct {
	settings ingressSettings
	source   *source.Source
	secrets  *named
}

// open returns what serves Ingresses, nil for none, with Services of a domain. dir is nil without --secretsDir.
func (c ingressSettings) open(d model.Domain, dir *secretfile.Source) *ingresses {
	if c.class == "" {
		return nil
	}
	namespace, account, _ := strings.Cut(c.identity, "/")
	plain, encrypted, _ := c.numbers()
	secrets := &named{dir: dir, namespace: namespace, account: account}
	from := source.New(ingress.Options{Class: c.class, Proxies: namespace, Selector: c.selector, HTTP: plain, HTTPS: encrypted, Domain: d}, secrets)
	if dir != nil {
		dir.OnLearned = from.Wake
	}
	return &ingresses{c, from, secrets}
}

// feed returns the receiver of the Ingresses of a store, by the name of its source; nil for none.
func (i *ingresses) feed(store string) manifest.Ingresses {
	if i == nil {
		return nil
	}
	return i.source.Feed(store)
}

// remove removes the Ingresses of a store.
func (i *ingresses) remove(store string) {
	if i != nil {
		i.source.Remove(store)
	}
}

// join adds the sources of Ingresses, and those of an API server and of its Secrets, if inCluster. It returns the writer of
// their addresses, nil for none.
func (i *ingresses) join(server *discovery.Server, from cluster, inCluster bool, log *slog.Logger) (status *configs.IngressStatus) {
	if i == nil {
		return nil
	}
	server.Sources["ingress"] = i.source
	if !inCluster {
		return nil
	}
	const name = "kubernetesIngress"
	reader := secrets.New(from.connect)
	reader.OnLearned = i.source.Wake
	i.secrets.reader, server.Secrets["ingressSecrets"] = reader, reader
	feed := i.source.Feed(name)
	objects := &configs.Ingress{Connect: from.connect, Cluster: from.id, Namespaces: from.namespaces, Class: i.settings.class, Into: feed}
	if namespace, name, found := strings.Cut(i.settings.service, "/"); found {
		status = configs.NewIngressStatus(from.connect, ingress.Name{Namespace: namespace, Name: name}, log)
		objects.Show = status.Show
		feed.Served(objects.Served)
	}
	server.Sources[name] = objects
	return status
}

// named are the Secrets that the proxies of an identity may receive: those of --secretsDir, and those of the API server
// that are not there.
type named struct {
	dir                *secretfile.Source // nil for none
	reader             *secrets.Source    // nil for none
	namespace, account string

	wanted []ingress.Name // of the last call of Want
}

// Want sets the Secrets to read.
func (n *named) Want(names []ingress.Name) {
	var all, rest []secret.Wanted
	found := map[secret.Name]string{}
	if n.dir != nil {
		found = n.dir.Known()
	}
	for _, name := range names {
		w := secret.Wanted{
			Object: secret.Name{Namespace: name.Namespace, Name: name.Name}, Pair: true,
			As: secret.Name{Namespace: n.namespace, Name: ingress.Credential(name)}, Accounts: []string{n.account},
		}
		all = append(all, w)
		if fault, looked := found[w.Object]; looked && fault != "" || n.dir == nil {
			rest = append(rest, w)
		}
	}
	if n.dir != nil {
		n.dir.Want(all)
	}
	if n.reader != nil {
		n.reader.Want(rest)
	}
	n.wanted = names
}

// Known returns the faults of the Secrets that were read.
func (n *named) Known() map[ingress.Name]string {
	var found, read map[secret.Name]string
	if n.dir != nil {
		found = n.dir.Known()
	}
	if n.reader != nil {
		read = n.reader.Known()
	}
	out := map[ingress.Name]string{}
	for _, name := range n.wanted {
		object := secret.Name{Namespace: name.Namespace, Name: name.Name}
		fault, looked := found[object]
		switch {
		case n.dir == nil && n.reader == nil:
			fault, looked = "cannot be read: --secretsDir is not given", true
		case n.reader != nil && (n.dir == nil || looked && fault != ""):
			fault, looked = read[object]
		}
		if looked {
			out[name] = fault
		}
	}
	return out
}
