package config

import (
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// The API groups of Istio's kinds.
const (
	group         = "networking.istio.io"
	securityGroup = "security.istio.io"
)

// groupOf returns the API group of a kind that is served.
func groupOf(kind string) string {
	switch kind {
	case "AuthorizationPolicy", "PeerAuthentication", "RequestAuthentication":
		return securityGroup
	default:
		return group
	}
}

// bestOf returns a kind's best apiVersion.
func bestOf(kind string) string { return groupOf(kind) + "/" + versions(kind)[0] }

// kind is one kind of object that discovery serves.
type kind struct {
	name  string
	spec  func() proto.Message // an empty one
	rules func(field, proto.Message)

	// failClosed makes a spec from what could be read of one that has faults: it keeps out all whom that one may keep
	// out. It is nil for a kind that keeps nobody out, and makes nil for an object that keeps nobody out.
	failClosed func(read proto.Message, faults []Problem) proto.Message
}

// kindOf returns a kind; false if it is not served.
func kindOf(apiVersion, name string) (kind, bool) {
	in, version, _ := strings.Cut(apiVersion, "/")
	if in != groupOf(name) || !slices.Contains(versions(name), version) {
		return kind{}, false
	}
	switch name {
	case "AuthorizationPolicy":
		return failingClosed(kindFor(name, authorizationPolicy), failClosedPolicy), true
	case "DestinationRule":
		return kindFor(name, destinationRule), true
	case "Gateway":
		return kindFor(name, gateway), true
	case "PeerAuthentication":
		return failingClosed(kindFor(name, peerAuthentication), failClosedPeerAuthentication), true
	case "ProxyConfig":
		return kindFor(name, proxyConfig), true
	case "RequestAuthentication":
		return failingClosed(kindFor(name, requestAuthentication), failClosedRequestAuthentication), true
	case "ServiceEntry":
		return kindFor(name, serviceEntry), true
	case "Sidecar":
		return kindFor(name, sidecar), true
	case "VirtualService":
		return kindFor(name, virtualService), true
	case "WorkloadEntry":
		return kindFor(name, workloadEntry), true
	case "WorkloadGroup":
		return kindFor(name, workloadGroup), true
	default:
		return kind{}, false
	}
}

// versions returns the API versions of a kind, the best first.
func versions(kind string) []string {
	switch {
	case kind == "ProxyConfig":
		return []string{"v1beta1"}
	case groupOf(kind) == securityGroup:
		return []string{"v1", "v1beta1"}
	default:
		return []string{"v1", "v1beta1", "v1alpha3"}
	}
}

// KindNames returns the kinds of objects that are served, and the two kinds of mesh settings, which have separate
// files.
func KindNames() []string { return append(kindNames(), "MeshConfig", "MeshNetworks") }

// Kind is a kind of object that is served, at its best version.
type Kind struct {
	APIVersion string // "networking.istio.io/v1"
	Name       string
	Spec       protoreflect.FullName // of the message in an object's spec
}

// Kinds returns the kinds that are served, without the mesh settings.
func Kinds() []Kind {
	var out []Kind
	for _, name := range kindNames() {
		apiVersion := bestOf(name)
		k, _ := kindOf(apiVersion, name)
		out = append(out, Kind{apiVersion, name, k.spec().ProtoReflect().Descriptor().FullName()})
	}
	return out
}

func kindNames() []string {
	return []string{
		"DestinationRule", "Gateway", "PeerAuthentication", "ProxyConfig", "ServiceEntry", "Sidecar", "VirtualService", "WorkloadEntry",
		"WorkloadGroup", "AuthorizationPolicy", "RequestAuthentication",
	}
}

func kindFor[M proto.Message](name string, rules func(field, M)) kind {
	var spec M
	return kind{
		name:  name,
		spec:  func() proto.Message { return spec.ProtoReflect().New().Interface() },
		rules: func(f field, m proto.Message) { rules(f, m.(M)) },
	}
}

// failingClosed returns a kind with a function for failClosed.
func failingClosed[M proto.Message](k kind, closed func(M, []Problem) M) kind {
	k.failClosed = func(read proto.Message, faults []Problem) proto.Message {
		if out := closed(read.(M), faults); out.ProtoReflect().IsValid() {
			return out
		}
		return nil
	}
	return k
}

// Resource is the name and versions of a kind at an API server.
type Resource struct {
	Group, Kind, Plural string
	Versions            []string // the best first
}

// Resources returns the resources of all kinds that are served, without the mesh settings.
func Resources() []Resource {
	var out []Resource
	for _, name := range kindNames() {
		out = append(out, Resource{groupOf(name), name, plural(name), versions(name)})
	}
	return out
}

func plural(kind string) string {
	lower := strings.ToLower(kind)
	if stem, found := strings.CutSuffix(lower, "y"); found && !strings.HasSuffix(stem, "a") { // not gateways
		return stem + "ies"
	}
	return lower + "s"
}

// KindNamed returns the kind for a text: its name, its plural, or its short name in kubectl.
func KindNamed(text string) (string, error) {
	short := map[string]string{
		"ap": "AuthorizationPolicy", "dr": "DestinationRule", "gw": "Gateway", "pa": "PeerAuthentication", "ra": "RequestAuthentication", "se": "ServiceEntry", "vs": "VirtualService", "we": "WorkloadEntry", "wg": "WorkloadGroup",
	}
	low, _, _ := strings.Cut(strings.ToLower(text), ".") // virtualservices.networking.istio.io
	if kind := short[low]; kind != "" {
		return kind, nil
	}
	var names []string
	for _, r := range Resources() {
		if low == strings.ToLower(r.Kind) || low == r.Plural {
			return r.Kind, nil
		}
		names = append(names, r.Kind)
	}
	return "", fmt.Errorf("%s: want one of %s", text, strings.Join(names, ", "))
}
