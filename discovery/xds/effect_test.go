package xds

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	meshconfig "istio.io/api/mesh/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"
	security "istio.io/api/security/v1beta1"

	"github.com/pilotlight/pilotlight/discovery/config"
	"github.com/pilotlight/pilotlight/discovery/model"
)

// specs returns the kinds with their types.
func specs() map[string]proto.Message {
	return map[string]proto.Message{
		"DestinationRule": &networking.DestinationRule{}, "Gateway": &networking.Gateway{}, "ServiceEntry": &networking.ServiceEntry{},
		"AuthorizationPolicy": &security.AuthorizationPolicy{}, "PeerAuthentication": &security.PeerAuthentication{}, "RequestAuthentication": &security.RequestAuthentication{}, "Sidecar": &networking.Sidecar{}, "VirtualService": &networking.VirtualService{}, "WorkloadEntry": &networking.WorkloadEntry{},
		"MeshConfig": &meshconfig.MeshConfig{}, "MeshNetworks": &meshconfig.MeshNetworks{},
	}
}

// Every field that the support table lists as served has an effect: in some scenario another value of it, or none,
// changes the configuration of some proxy. A result of validation is no proof. A message type of Istio's that several
// fields have, such as a connection pool, must be shown in each of them, and its own fields in one.
func TestEveryServedFieldHasAnEffect(t *testing.T) {
	shown := map[string]bool{}
	reasons := noEffect()
	for _, thorough := range []bool{false, true} { // fields that the first pass does not show are tried with every value
		for _, read := range drafts(t) {
			showEffects(t, read, shown, thorough)
		}
	}
	missing := map[string]string{}
	for kind, spec := range specs() {
		for path, names := range fieldsOf(kind, spec.ProtoReflect().Descriptor(), "", nil) {
			for _, name := range names {
				if !shown[name] && reasons[name] == "" {
					missing[name] = path
				}
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(missing)) {
		t.Errorf("no scenario shows what %s does, at %s", name, missing[name])
	}
	for name, reason := range reasons {
		if shown[name] {
			t.Errorf("%s has an effect, and counts as having none: %s", name, reason)
		}
	}
}

// fieldsOf returns the fields that the support table lists as served, by path, each with the names of the fields on the
// way to it.
func fieldsOf(kind string, m protoreflect.MessageDescriptor, above string, names []string) map[string][]string {
	out := map[string][]string{}
	for i := 0; i < m.Fields().Len() && len(names) < 12; i++ {
		fd := m.Fields().Get(i)
		path := strings.TrimPrefix(above+"."+fd.JSONName(), ".")
		way := append(slices.Clone(names), nameOf(fd))
		if below := messageOf(fd); below != nil {
			maps.Copy(out, fieldsOf(kind, below, path, way))
		} else if isServed(kind, path) {
			out[kind+"."+path] = way
		}
	}
	return out
}

// nameOf returns a name such as "ServerTLSSettings.privateKey".
func nameOf(fd protoreflect.FieldDescriptor) string {
	name := string(fd.ContainingMessage().FullName())
	return name[strings.LastIndex(name, "alpha")+len("alpha1."):] + "." + fd.JSONName()
}

func isServed(kind, path string) bool {
	best, served := -1, false
	for _, s := range config.SupportOf(kind) {
		if s.Path == "*" && best < 0 {
			best, served = 0, s.Served
		}
		if (s.Path == path || strings.HasPrefix(path, s.Path+".")) && len(s.Path) > best {
			best, served = len(s.Path), s.Served
		}
	}
	return served
}

// messageOf returns the message type of a field, nil for a scalar.
func messageOf(fd protoreflect.FieldDescriptor) protoreflect.MessageDescriptor {
	m := fd.Message()
	if fd.IsMap() {
		m = fd.MapValue().Message()
	}
	if m == nil || m.ParentFile().Package() == "google.protobuf" {
		return nil
	}
	return m
}

// leaf is one value of a file, with its field.
type leaf struct {
	spot
	names []string // of its field, and of those on the way to it
}

func (l leaf) shown(already map[string]bool) bool {
	return !slices.ContainsFunc(l.names, func(name string) bool { return !already[name] })
}

func leaves(n *yaml.Node, m protoreflect.MessageDescriptor, names []string) (out []leaf) {
	for i := 0; i+1 < len(n.Content); i += 2 {
		fd := m.Fields().ByJSONName(n.Content[i].Value)
		if fd == nil {
			continue
		}
		value, way := n.Content[i+1], append(slices.Clone(names), nameOf(fd))
		below := messageOf(fd)
		switch {
		case below == nil:
			out = append(out, leaf{spot{n, i + 1}, way})
		case fd.IsMap():
			for j := 1; j < len(value.Content); j += 2 {
				out = append(out, leaves(value.Content[j], below, way)...)
			}
		case fd.IsList():
			for _, item := range value.Content {
				out = append(out, leaves(item, below, way)...)
			}
		default:
			out = append(out, leaves(value, below, way)...)
		}
	}
	return out
}

func (d draft) leaves() (out []leaf) {
	for _, document := range d.objects {
		kind, spec := "", (*yaml.Node)(nil)
		for i, root := 0, document.Content[0]; i+1 < len(root.Content); i += 2 {
			switch root.Content[i].Value {
			case "kind":
				kind = root.Content[i+1].Value
			case "spec":
				spec = root.Content[i+1]
			}
		}
		if m := specs()[kind]; m != nil && spec != nil {
			out = append(out, leaves(spec, m.ProtoReflect().Descriptor(), nil)...)
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(d.settings)) {
		out = append(out, leaves(d.settings[kind].Content[0], specs()[kind].ProtoReflect().Descriptor(), nil)...)
	}
	return out
}

// showEffects records the fields of a scenario whose removal or change changes its result.
func showEffects(t *testing.T, read func() draft, shown map[string]bool, thorough bool) {
	t.Helper()
	original := read()
	objects := original.decode()
	views := original.views()
	before := make([]*Resources, len(views))
	for i, v := range views {
		before[i] = Build(meshOf(t, objects), v)
	}
	for i, l := range original.leaves() {
		if l.shown(shown) || noEffect()[l.names[len(l.names)-1]] != "" {
			continue
		}
		for _, other := range others(l.node(), thorough) {
			d := read()
			at := d.leaves()[i]
			if other == nil {
				at.remove()
			} else {
				at.parent.Content[at.index] = other
			}
			edited := d.decode()
			if len(edited) != len(objects) {
				continue // validation rejects it
			}
			if differs(meshOf(t, edited), views, before) {
				for _, name := range l.names {
					shown[name] = true
				}
				break
			}
		}
	}
}

// differs reports whether the resources of some view of a mesh differ from before.
func differs(m *model.Mesh, views []View, before []*Resources) bool {
	for i, v := range views {
		if !sameResources(before[i], Build(m, v)) {
			return true
		}
	}
	return false
}

// others returns values that a field may have instead; nil means that the field is removed.
func others(n *yaml.Node, thorough bool) []*yaml.Node {
	out := []*yaml.Node{nil}
	scalar := func(v string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Value: v} }
	switch n.Kind {
	case yaml.MappingNode:
		for _, pair := range [][2]string{{"some", "other"}, {"east/*", "100"}} {
			out = append(out, &yaml.Node{Kind: yaml.MappingNode, Content: []*yaml.Node{scalar(pair[0]), scalar(pair[1])}})
		}
	case yaml.SequenceNode:
		for _, v := range []string{"other.test", "other.example.com", "other/other.test", "other", "10.9.0.0/16"} {
			out = append(out, &yaml.Node{Kind: yaml.SequenceNode, Content: []*yaml.Node{scalar(v)}})
		}
	case yaml.ScalarNode:
		if !thorough {
			return append(out, scalar(n.Value+"x"), scalar("7"), scalar("7s"))
		}
		for _, v := range append([]string{n.Value + "x", "x" + n.Value, "10.9.9.9", "7s", "7", "418", "INTERNAL", "source.namespace", otherKeys}, values...) {
			out = append(out, scalar(v))
		}
	}
	return out
}

// views returns those of the scenario's own proxy and of all other proxies.
func (d draft) views() (out []View) {
	out = append(out, d.own)
	for _, name := range slices.Sorted(maps.Keys(proxies())) {
		out = append(out, ViewOf(proxies()[name]))
	}
	return out
}

// noEffect returns the reasons why some served fields change nothing.
func noEffect() map[string]string {
	out := map[string]string{
		"MeshConfig.configSources":          "where objects come from, not what they say: TestServeConfigSources and TestAnEmptyFirstAnswerDoesNotWipe show it",
		"ConfigSource.address":              "the same",
		"ConfigSource.tlsSettings":          "the same: TestServersOfTLS of discovery/config/mcp",
		"security.v1beta1.JWTRule.timeout":  "how long keys are waited for: TestKeySets of discovery/model, TestSilentServers of discovery/keys",
		"security.v1beta1.JWTRule.jwksUri":  "where keys come from, which have an effect: TestKeySets of discovery/model, TestKeysAreFetched",
		"ServiceEntry.location":             "traffic to both is proxied alike",
		"Server.name":                       "told by nobody",
		"MeshConfig.ExtensionProvider.name": "defaultProviders refers to it, and has an effect",
		"SidecarPort.name":                  "told by nobody",
		"MeshConfig.trustDomain":            "package ads reads it, of certificates",
		"MeshConfig.trustDomainAliases":     "package ads reads it, of certificates",
	}
	for _, name := range injected {
		out[name] = "injection reads it: TestEveryFieldOfProxyConfigIsKnown of discovery/inject"
	}
	return out
}

// injected are the fields of defaultConfig that no resource shows: what injected Pods start with.
var injected = []string{
	"ProxyConfig.ProxyStatsMatcher.inclusionPrefixes", "ProxyConfig.ProxyStatsMatcher.inclusionRegexps",
	"ProxyConfig.ProxyStatsMatcher.inclusionSuffixes", "ProxyConfig.availabilityZone", "ProxyConfig.binaryPath", "ProxyConfig.concurrency",
	"ProxyConfig.controlPlaneAuthPolicy", "ProxyConfig.customConfigFile", "ProxyConfig.discoveryAddress", "ProxyConfig.drainDuration",
	"ProxyConfig.envoyAccessLogService", "ProxyConfig.envoyMetricsService", "ProxyConfig.envoyMetricsServiceAddress",
	"ProxyConfig.holdApplicationUntilProxyStarts", "ProxyConfig.image", "ProxyConfig.interceptionMode", "ProxyConfig.meshId",
	"ProxyConfig.proxyAdminPort", "ProxyConfig.proxyBootstrapTemplatePath", "ProxyConfig.proxyMetadata", "ProxyConfig.proxyStatsMatcher",
	"ProxyConfig.runtimeValues", "ProxyConfig.serviceCluster", "ProxyConfig.statsdUdpAddress", "ProxyConfig.statusPort",
	"ProxyConfig.terminationDrainDuration", "ProxyConfig.zipkinAddress", "RemoteService.address", "Tracing.Zipkin.address", "Tracing.zipkin",
	"networking.v1beta1.ProxyImage.imageType",
}

// otherKeys is a key set that is in no scenario.
const otherKeys = `{"keys": [{"kty": "OKP", "crv": "Ed25519", "x": "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"}]}`
