package xds

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/anypb"

	"go.yaml.in/yaml/v3"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"github.com/pilotlight/pilotlight/discovery/config"
	"github.com/pilotlight/pilotlight/node"
)

// proxies are of every kind.
func proxies() map[string]Proxy {
	labels := map[string]string{"istio": "ingressgateway", "app": "app"}
	of := func(role node.Role, mode node.InterceptionMode, port int) Proxy {
		return Proxy{
			ID:       node.ID{Role: role, IP: "10.0.0.1", Name: "a.default", Domain: clusterDomain},
			Metadata: node.Metadata{Namespace: "default", Labels: labels, InterceptionMode: mode, HTTPProxyPort: port},
		}
	}
	return map[string]Proxy{
		"redirect": of(node.Sidecar, node.Redirect, 0), "tproxy": of(node.Sidecar, node.TProxy, 15080),
		"none": of(node.Sidecar, node.None, 0), "proxy": of(node.Sidecar, node.None, 15080), "router": of(node.Router, "", 0),
	}
}

// FuzzBuild: whatever a file holds, nothing panics, and what validation accepts the real Envoy accepts. Seeds are the
// scenarios; each run puts one value of a file's in the place of another.
func FuzzBuild(f *testing.F) {
	files, err := filepath.Glob("testdata/scenario/*.yaml")
	if err != nil {
		f.Fatal(err)
	}
	for i, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		for j, value := range []string{"*", "0", "%"} {
			f.Add(data, uint16(i*7+j*37), value)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte, pick uint16, value string) {
		data = withScalar(data, int(pick), value)
		objects, _ := config.Decode("f", data)
		if len(objects) == 0 {
			return
		}
		m := meshOf(t, objects)
		names := slices.Sorted(maps.Keys(proxies()))
		name := names[int(pick)%len(names)]
		p := proxies()[name]
		r := Build(m, ViewOf(p))
		if again := Build(m, ViewOf(p)); !sameResources(r, again) {
			t.Errorf("%s: the same mesh gives another configuration", name)
		}
		withTestCertificates(t, r)
		validate(t, r)
		if t.Failed() {
			t.Fatalf("as %s:\n%s", name, data)
		}
	})
}

// withScalar returns YAML with another value in the place of its n-th scalar, counted around.
func withScalar(data []byte, n int, value string) []byte {
	var documents []*yaml.Node
	var scalars []*yaml.Node
	for decoder := yaml.NewDecoder(bytes.NewReader(data)); ; {
		var document yaml.Node
		if decoder.Decode(&document) != nil {
			break
		}
		documents = append(documents, &document)
		collectScalars(&document, &scalars)
	}
	if len(scalars) == 0 {
		return data
	}
	*scalars[n%len(scalars)] = yaml.Node{Kind: yaml.ScalarNode, Value: value}
	var out bytes.Buffer
	encoder := yaml.NewEncoder(&out)
	for _, document := range documents {
		if encoder.Encode(document) != nil {
			return data
		}
	}
	return out.Bytes()
}

func collectScalars(n *yaml.Node, out *[]*yaml.Node) {
	if n.Kind == yaml.ScalarNode {
		*out = append(*out, n)
	}
	for _, child := range n.Content {
		collectScalars(child, out)
	}
}

func sameResources(a, b *Resources) bool {
	return len(changed(a.Clusters, b.Clusters))+len(changed(a.Endpoints, b.Endpoints))+
		len(changed(a.Listeners, b.Listeners))+len(changed(a.Routes, b.Routes)) == 0
}

// changed returns the messages of b that a does not have at the same place.
func changed[T proto.Message](a, b []T) []T {
	var out []T
	for i, m := range b {
		if i >= len(a) || !proto.Equal(a[i], m) {
			out = append(out, m)
		}
	}
	return out
}

// withTestCertificates puts files that exist in the place of those that configuration names.
func withTestCertificates(t *testing.T, r *Resources) {
	t.Helper()
	dir := certificates(t)
	for _, c := range r.Clusters {
		replaceFiles(t, c.ProtoReflect(), dir)
	}
	for _, l := range r.Listeners {
		replaceFiles(t, l.ProtoReflect(), dir)
	}
}

func replaceFiles(t *testing.T, m protoreflect.Message, dir string) {
	t.Helper()
	if packed, ok := m.Interface().(*anypb.Any); ok {
		inner, err := packed.UnmarshalNew()
		if err != nil {
			t.Fatal(err)
		}
		replaceFiles(t, inner.ProtoReflect(), dir)
		packed.Value = pack(inner).Value
		return
	}
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		if source, ok := fileOf(fd, v); ok {
			name := map[protoreflect.Name]string{"private_key": "key.pem", "trusted_ca": "ca.pem", "certificate_chain": "cert.pem"}[fd.Name()]
			if name == "" {
				m.Clear(fd) // a revocation list
				return true
			}
			source.Specifier = &corev3.DataSource_Filename{Filename: filepath.Join(dir, name)}
			return true
		}
		switch {
		case fd.Message() == nil:
		case fd.IsList():
			for i := range v.List().Len() {
				replaceFiles(t, v.List().Get(i).Message(), dir)
			}
		case fd.IsMap():
			v.Map().Range(func(_ protoreflect.MapKey, v protoreflect.Value) bool {
				if inner, ok := v.Interface().(protoreflect.Message); ok {
					replaceFiles(t, inner, dir)
				}
				return true
			})
		default:
			replaceFiles(t, v.Message(), dir)
		}
		return true
	})
}

func fileOf(fd protoreflect.FieldDescriptor, v protoreflect.Value) (*corev3.DataSource, bool) {
	if fd.Message() == nil || fd.IsList() || fd.IsMap() {
		return nil, false
	}
	source, ok := v.Message().Interface().(*corev3.DataSource)
	return source, ok && source.GetFilename() != ""
}
