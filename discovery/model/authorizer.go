package model

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	meshconfig "istio.io/api/mesh/v1alpha1"
)

// Authorizer is a provider of MeshConfig that is asked about the requests that CUSTOM policies name.
type Authorizer struct {
	Provider *meshconfig.MeshConfig_ExtensionProvider // of HTTP or gRPC
	Host     string                                   // of its service in the mesh
	Port     uint32
}

// authorizerAt returns the address of a provider for authorization; service is "" if it is another one.
func authorizerAt(p *meshconfig.MeshConfig_ExtensionProvider) (service string, port uint32) {
	if h := p.GetEnvoyExtAuthzHttp(); h != nil {
		return h.Service, h.Port
	}
	return p.GetEnvoyExtAuthzGrpc().GetService(), p.GetEnvoyExtAuthzGrpc().GetPort()
}

// authorizerHost divides [NAMESPACE/]HOST of a provider.
func (s Settings) authorizerHost(service string) (namespace, host string) {
	if of, name, found := strings.Cut(service, "/"); found {
		namespace, service = of, name
	}
	return namespace, s.Domain.Qualify(service, "default")
}

// Authorizer returns the provider of a name, as proxies of a namespace can ask it; fault says why they cannot.
func (m *Mesh) Authorizer(name, from string) (a Authorizer, fault string) {
	all := m.settings.Config.GetExtensionProviders()
	i := slices.IndexFunc(all, func(p *meshconfig.MeshConfig_ExtensionProvider) bool { return p.GetName() == name })
	if i < 0 {
		return a, fmt.Sprintf("%q is no extension provider of MeshConfig", name)
	}
	service, port := authorizerAt(all[i])
	if service == "" {
		return a, fmt.Sprintf("%q is no provider for authorization: want envoyExtAuthzHttp or envoyExtAuthzGrpc", name)
	}
	namespace, host := m.settings.authorizerHost(service)
	s := m.VisibleService(host, from)
	if s != nil && s.AliasOf != "" {
		host = s.AliasOf
		s = m.VisibleService(host, from)
	}
	if s == nil || namespace != "" && s.Namespace != namespace {
		return a, fmt.Sprintf("the service %s of %q is not there, or not visible to namespace %s", service, name, from)
	}
	if p, found := s.Port(port); !found || p.Protocol == UDP {
		return a, fmt.Sprintf("the service %s of %q has no port %d for it", service, name, port)
	}
	return Authorizer{all[i], host, port}, ""
}

const forbidden = 403

// errorStatuses are the ranges of errors that Envoy knows.
var errorStatuses = [][2]uint64{{400, 417}, {421, 424}, {426, 426}, {428, 429}, {431, 431}, {500, 508}, {510, 511}}

// ParseErrorStatus reads the status with which requests are answered that nobody could be asked about; without one it is
// 403.
func ParseErrorStatus(text string) (status uint32, fault string) {
	if text == "" {
		return forbidden, ""
	}
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil || !slices.ContainsFunc(errorStatuses, func(r [2]uint64) bool { return n >= r[0] && n <= r[1] }) {
		return forbidden, fmt.Sprintf("is %q, want a status of an error, such as 403 or 503", text)
	}
	return uint32(n), ""
}
