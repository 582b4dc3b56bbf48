package model

import (
	"fmt"
	"strconv"
	"strings"
)

// What is wrong with a proxy by its node: the namespace, the DNS domain, the version, and the capture of DNS.

// DNS is what a proxy says about the capture of DNS, by the values of its metadata.
type DNS struct {
	Capture DNSSetting // DNS_CAPTURE
	Auto    DNSSetting // DNS_AUTO_ALLOCATE
}

// DNSSetting is a switch of a proxy's metadata.
type DNSSetting uint8

const (
	DNSUnset DNSSetting = iota
	DNSOn
	DNSOff // any value but "true"
)

// otherNamespace returns how the proxy shows that it is of another namespace than the one it is served as; "" if it does not.
func (j *judge) otherNamespace(w Proxy) string {
	const want = "want one namespace in POD_NAMESPACE, or ISTIO_META_NAMESPACE, and --domain of its agent"
	if before, ok := j.domain.cut(w.Domain); ok && before != "" && before != w.Namespace && !strings.Contains(before, ".") {
		return fmt.Sprintf("its DNS domain %s is of namespace %s, and the proxy of namespace %q: short names of services mean those of %s, and the "+
			"objects of %s are not for it; %s", w.Domain, before, w.Namespace, before, before, want)
	}
	pod := j.podAt(w)
	if pod == nil {
		return ""
	}
	return fmt.Sprintf("it is of namespace %q, and its address is that of Pod %s/%s: objects of namespace %s are not for it, and its inbound ports have "+
		"no configuration; %s", w.Namespace, pod.Namespace, pod.Name, pod.Namespace, want)
}

// podAt returns a Pod of another namespace that has an address of the proxy, the first by its name, if no workload of its own
// namespace has one.
func (j *judge) podAt(w Proxy) (found *Workload) {
	at := Claim{Addresses: w.Addresses}
	if len(w.Addresses) == 0 || len(j.mesh.residents[w.Namespace].byAddress(at)) > 0 {
		return nil
	}
	for _, residents := range j.mesh.residents {
		for _, pod := range residents.byAddress(at) {
			another := w.Cluster != "" && pod.Cluster != "" && pod.Cluster != w.Cluster
			if pod.Registry == "" || pod.OnNode || another {
				continue
			}
			if found == nil || pod.Namespace+"/"+pod.Name < found.Namespace+"/"+found.Name {
				found = pod
			}
		}
	}
	return found
}

// Fault returns the reason why the short names of a cluster's services do not work for a proxy with its own DNS domain, ""
// if they do. A domain that is not of Kubernetes' form, such as that of Consul, is no fault: the short names of another
// registry work in it.
func (d Domain) Fault(own string) string {
	_, suffix, ok := strings.Cut("."+own, svc)
	if own == "" || !ok && own != d.String() || ok && suffix == d.String() && !strings.HasPrefix(own, svc[1:]) {
		return ""
	}
	return fmt.Sprintf("the DNS domain of the proxy is %s, want NAMESPACE.svc.%s: it reaches services by their whole hosts only", own, d)
}

// oldestEnvoy is the minor version of Envoy 1 for which the configuration is made.
const oldestEnvoy = 40

// oldEnvoy returns what is said about a version such as "envoy 1.38.2"; "" for one that is not older, or no Envoy's.
func oldEnvoy(version string) string {
	number, ok := strings.CutPrefix(version, "envoy ")
	parts := strings.Split(number, ".")
	if !ok || len(parts) < 2 {
		return ""
	}
	major, err := strconv.Atoi(parts[0])
	minor, err2 := strconv.Atoi(parts[1])
	if err != nil || err2 != nil || major > 1 || major == 1 && minor >= oldestEnvoy {
		return ""
	}
	return fmt.Sprintf("it is Envoy %s, and the configuration is made for 1.%d: Envoy refuses resources with fields that it does not know; want Envoy 1.%d",
		number, oldestEnvoy, oldestEnvoy)
}

// fault returns why DNS is captured on one side only; "" if it is on both or none. defaults is the environment of
// MeshConfig's defaultConfig.
func (d DNS) fault(w Proxy, defaults map[string]string) string {
	const key = "ISTIO_META_DNS_CAPTURE"
	switch {
	case w.Proxyless:
		return ""
	case d.Capture == DNSOn && w.Gateway:
		return key + " is true at a gateway, which captures nothing: no program's DNS query comes to it; want it at sidecars only"
	case d.Capture == DNSOn && w.Binds:
		return key + " is true, and INTERCEPTION_MODE is NONE: no DNS query is redirected to the proxy, and programs do not get the addresses of the mesh; " +
			"want REDIRECT with pod-init --redirect-dns, or no " + key
	case d.Auto == DNSOn && d.Capture != DNSOn:
		return "ISTIO_META_DNS_AUTO_ALLOCATE is true without " + key + ": services without an address get one that no DNS answers; want both, with pod-init " +
			"--redirect-dns"
	case d.Capture == DNSUnset && defaults[key] == "true" && !w.Gateway && !w.Binds:
		return "defaultConfig of MeshConfig has " + key + "=true, and the proxy's agent was started without: names of services without a DNS entry do not " +
			"resolve there; want it in the agent's environment with pod-init --redirect-dns, or false there"
	}
	return ""
}
