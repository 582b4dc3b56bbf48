package lab

import (
	"fmt"
	"strings"
)

// Service declares a host on HTTP port 80 with these backends as its endpoints.
func (w *World) Service(host string, backends ...*Backend) {
	w.T.Helper()
	var endpoints []string
	for _, b := range backends {
		endpoints = append(endpoints, b.Endpoint(""))
	}
	w.ServiceOf(host, "HTTP", endpoints...)
}

// ServiceOf declares a host at port 80 of a protocol, with endpoints as a ServiceEntry lists them.
func (w *World) ServiceOf(host, protocol string, endpoints ...string) {
	w.T.Helper()
	w.Apply("ServiceEntry "+host, fmt.Sprintf("hosts: [%s]\nlocation: MESH_INTERNAL\nresolution: STATIC\nports: [{number: 80, name: http, protocol: %s}]\nendpoints: [%s]",
		host, protocol, strings.Join(endpoints, ", ")))
}
