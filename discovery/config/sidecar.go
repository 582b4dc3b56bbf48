package config

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"
)

func sidecarServed() served {
	return served{fields: []string{
		"workloadSelector.labels",
		"ingress.port.number", "ingress.port.protocol", "ingress.port.name", "ingress.bind", "ingress.defaultEndpoint",
	}}
}

func sidecar(f field, s *networking.Sidecar) {
	f.at("workloadSelector").at("labels").labels(s.GetWorkloadSelector().GetLabels())
	listeners := unique{}
	for i, l := range s.Ingress {
		at := f.at("ingress").item(i)
		ingressListener(at, l)
		listeners.add(at.at("port").at("number"), fmt.Sprintf("%s:%d", l.GetBind(), l.GetPort().GetNumber()))
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
	if l.DefaultEndpoint != "" {
		defaultEndpoint(f.at("defaultEndpoint"), l.DefaultEndpoint)
	}
}

// defaultEndpoint wants one of Istio's forms: the loopback address, the instance's own, or a Unix socket.
func defaultEndpoint(f field, endpoint string) {
	if path, found := strings.CutPrefix(endpoint, "unix://"); found {
		if !strings.HasPrefix(path, "/") {
			f.errorf("is %q, want an absolute path after unix://", endpoint)
		}
		return
	}
	address, err := netip.ParseAddrPort(endpoint)
	known := slices.Contains([]string{"127.0.0.1", "0.0.0.0", "::1", "::"}, address.Addr().String())
	if err != nil || !known || address.Port() == 0 {
		f.errorf("is %q, want 127.0.0.1:PORT, [::1]:PORT, 0.0.0.0:PORT, [::]:PORT or unix:///path", endpoint)
	}
}
