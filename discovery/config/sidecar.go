package config

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/pilotlight/pilotlight/discovery/model"
)

func sidecar(f field, s *networking.Sidecar) {
	f.at("workloadSelector").at("labels").labels(s.GetWorkloadSelector().GetLabels())
	if s.WorkloadSelector != nil {
		f.at("workloadSelector").someLabels(s.WorkloadSelector.Labels)
	}
	if len(s.Ingress)+len(s.Egress) == 0 && s.OutboundTrafficPolicy == nil && s.InboundConnectionPool == nil {
		f.errorf("says nothing, want ingress, egress, outboundTrafficPolicy or inboundConnectionPool")
	}
	listeners := unique{}
	for i, l := range s.Ingress {
		at := f.at("ingress").item(i)
		ingressListener(at, l)
		listeners.add(at.at("port").at("number"), fmt.Sprintf("%s:%d", l.GetBind(), l.GetPort().GetNumber()))
	}
	connectionPool(f.at("inboundConnectionPool"), s.InboundConnectionPool)
	egress := unique{}
	for i, l := range s.Egress {
		at := f.at("egress").item(i)
		egressListener(at, l)
		switch {
		case l.GetPort() != nil:
			egress.add(at.at("port").at("number"), fmt.Sprintf("%s:%d", l.GetBind(), l.GetPort().GetNumber()))
		case i < len(s.Egress)-1:
			at.at("port").errorf("is missing: only the last listener may be for every port")
		}
	}
	if proxy := s.GetOutboundTrafficPolicy().GetEgressProxy(); proxy != nil {
		at := f.at("outboundTrafficPolicy").at("egressProxy")
		destination(at, proxy)
		if s.OutboundTrafficPolicy.Mode != networking.OutboundTrafficPolicy_ALLOW_ANY {
			at.errorf("is given under mode %s, want ALLOW_ANY", s.OutboundTrafficPolicy.Mode)
		}
		if proxy.GetPort() == nil {
			at.at("port").errorf("is missing")
		}
	}
}

func egressListener(f field, l *networking.IstioEgressListener) {
	f.at("hosts").required(len(l.GetHosts()))
	whole := map[string]bool{} // namespaces of which all hosts are there
	for _, host := range l.GetHosts() {
		if namespace, name, _ := strings.Cut(host, "/"); name == "*" {
			whole[f.own(namespace)] = true
		}
	}
	seen := map[string]bool{}
	for i, host := range l.GetHosts() {
		at := f.at("hosts").item(i)
		namespace, name, found := strings.Cut(host, "/")
		switch {
		case !found:
			at.errorf("is %q, want NAMESPACE/HOST", host)
			continue
		case slices.Contains([]string{"*", ".", "~"}, namespace):
		case strings.HasPrefix(namespace, "~") && f.isLabel(namespace[1:]):
			at.warnf("is %q, and no namespace begins with ~: it stands for nothing; want ~/* for no host, or %s", host, host[1:])
		default:
			at.label(namespace)
		}
		if name != "*" {
			at.host(name, true)
			at.wholeWildcard(name, Error)
		}
		own := f.own(namespace)
		switch id := own + "/" + name; {
		case whole["*"] && id != "*/*":
			at.warnf("is %q beside */*, which stands for every host", host)
		case seen[id] || whole[own] && name != "*":
			at.warnf("is %q, which is there already", host)
		default:
			seen[id] = true
		}
	}
	if l.GetPort() == nil {
		if l.GetBind() != "" {
			f.at("bind").errorf("is given without a port")
		}
		return
	}
	f.at("port").at("protocol").protocol(l.Port.Protocol)
	if path, unix := strings.CutPrefix(l.Bind, "unix://"); unix {
		ownSocket(f.at("bind"), path)
		if l.Port.Number != 0 {
			f.at("port").at("number").errorf("is %d, want 0 at a Unix socket", l.Port.Number)
		}
		if l.CaptureMode == networking.CaptureMode_IPTABLES {
			f.at("captureMode").errorf("is IPTABLES, and nothing is captured at a Unix socket")
		}
		return
	}
	f.at("port").at("number").port(l.Port.Number)
	if l.Bind != "" {
		f.at("bind").ip(l.Bind)
	}
}

func ingressListener(f field, l *networking.IstioIngressListener) {
	if l.GetPort() == nil {
		f.at("port").errorf("is missing")
		return
	}
	f.at("port").at("number").port(l.Port.Number)
	f.at("port").at("protocol").protocol(l.Port.Protocol)
	if l.Port.Name != "" {
		f.at("port").at("name").label(l.Port.Name)
	}
	if l.Bind != "" {
		f.at("bind").ip(l.Bind)
	}
	connectionPool(f.at("connectionPool"), l.ConnectionPool)
	if protocol, known := model.ParseProtocol(l.Port.Protocol); known && l.ConnectionPool.GetHttp() != nil && !protocol.IsHTTP() {
		f.at("connectionPool").at("http").warnf("is not used under protocol %s", l.Port.Protocol)
	}
	if l.Tls != nil {
		if l.Tls.CredentialName != "" || len(l.Tls.CredentialNames) > 0 {
			f.at("tls").errorf("names a certificate by a credential, which is for gateways: want files of the sidecar, serverCertificate and privateKey")
		}
		switch l.Tls.Mode {
		case networking.ServerTLSSettings_SIMPLE, networking.ServerTLSSettings_MUTUAL, networking.ServerTLSSettings_ISTIO_MUTUAL:
		default:
			f.at("tls").at("mode").errorf("is %s, want SIMPLE, MUTUAL or ISTIO_MUTUAL", l.Tls.Mode)
		}
		serverTLS(f.at("tls"), l.Tls)
	}
	if l.DefaultEndpoint != "" {
		defaultEndpoint(f.at("defaultEndpoint"), l.DefaultEndpoint)
	}
}

// own returns the namespace for which one in a host of a Sidecar stands.
func (f field) own(namespace string) string {
	if namespace == "." {
		return f.report.namespace
	}
	return namespace
}

// defaultEndpoint requires one of Istio's forms: the loopback address, the instance's own, or a Unix socket.
func defaultEndpoint(f field, endpoint string) {
	if path, found := strings.CutPrefix(endpoint, "unix://"); found {
		if !strings.HasPrefix(path, "/") {
			f.errorf("is %q, want an absolute path after unix://", endpoint)
			return
		}
		ownSocket(f, path)
		return
	}
	address, err := netip.ParseAddrPort(endpoint)
	known := slices.Contains([]string{"127.0.0.1", "0.0.0.0", "::1", "::"}, address.Addr().String())
	if err != nil || !known || address.Port() == 0 {
		f.errorf("is %q, want 127.0.0.1:PORT, [::1]:PORT, 0.0.0.0:PORT, [::]:PORT or unix:///path", endpoint)
	} else if model.DefaultAgentPort(uint32(address.Port())) {
		f.errorf("is %q, a port that the proxy and its agent have for themselves: want one of the workload", endpoint)
	}
}
