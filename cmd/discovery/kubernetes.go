package main

import (
	"cmp"
	"crypto/rand"
	"os"

	"github.com/pilotlight/pilotlight/discovery/ingress"
	"github.com/pilotlight/pilotlight/discovery/plane"
	"github.com/pilotlight/pilotlight/internal/setting"
	"github.com/pilotlight/pilotlight/internal/version"
)

func (s *settings) kubernetes() []setting.Setting {
	return []setting.Setting{
		{
			Name: "kubeconfig", Kind: setting.Path(&s.Cluster.Access.File),
			Help: "kubeconfig file of the API server of --registries Kubernetes, --kubernetesConfig, --meshConfigMap and the webhooks; if empty, that of the cluster " +
				"whose Pod this is",
		},
		{Name: "kubeContext", Kind: setting.Text(&s.Cluster.Access.Context, "a context of --kubeconfig"), Help: "context of --kubeconfig; if empty, its current one"},
		{
			Name: "clusterID", Default: "Kubernetes", Kind: setting.Name(&s.Cluster.ID, "a name"),
			Help: "name of the cluster: the CLUSTER_ID of its proxies, and the cluster of its endpoints",
		},
		{
			Name: "appNamespace", Kind: setting.List(&s.Cluster.Namespaces),
			Help: "namespaces whose Services, Pods and Istio objects count; if empty, all",
		},
		{
			Name: "kubernetesConfig", Default: "false", Kind: setting.Bool(&s.Cluster.Objects),
			Help: "serve the Istio objects of the API server, beside those of --configDir; kinds whose definitions come later are served from then on",
		},
		{
			Name: "meshConfigMap", Kind: object(&s.Cluster.Settings),
			Help: "ConfigMap of the mesh's settings, as NAMESPACE/NAME: MeshConfig in its key mesh, MeshNetworks in meshNetworks; read again when it changes",
		},
		{
			Name: "clusterRegistriesNamespace", Kind: setting.Text(&s.Cluster.Kubeconfig, "a namespace"),
			Help: "namespace of the Secrets with the label istio/multiCluster=true, whose kubeconfigs are further clusters of --registries Kubernetes, by name; " +
				"if empty, that of this Pod, and without --kubeconfig only. A kubeconfig that would run a program or read a file is refused",
		},
	}
}

// object is the kind of the namespace and name of an object.
func object(to *plane.Name) setting.Kind {
	return setting.Parsed(to, "name", "NAMESPACE/NAME", plane.ParseName)
}

func userAgent() string { return "pilotlight-discovery/" + version.Get().Version }

func (s *settings) leader() []setting.Setting {
	return []setting.Setting{
		{
			Name: "writeStatus", Default: "false", Kind: setting.Bool(&s.Cluster.Statuses),
			Help: "write what is wrong with an Istio object of --kubernetesConfig into its status, as the condition PilotlightAccepted, and as an Event; one of all " +
				"replicas does, the one that holds the Lease. With --registries Kubernetes each replica writes what is wrong with a proxy that is connected to it as an Event of its Pod",
		},
		{
			Name: "leaseNamespace", Kind: setting.Text(&s.Cluster.Lease.Namespace, "a namespace"),
			Help: "namespace of the Lease by which one of all replicas leads; if empty, that of this Pod, and istio-system where this is none",
		},
		{Name: "leaseName", Default: "pilotlight-discovery", Kind: setting.Text(&s.Cluster.Lease.Name, "a name"), Help: "name of that Lease, which is made if it is not there"},
	}
}

// replica returns a name for this run of this replica: the Pod's name, which is its host name, and a random part, so
// that a later run has another identity.
func replica() string {
	host, _ := os.Hostname() // without it, the random part is still unique
	return cmp.Or(os.Getenv("POD_NAME"), host, "discovery") + "_" + rand.Text()[:8]
}

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
