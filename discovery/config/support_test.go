package config

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/pilotlight/pilotlight/internal/golden"
)

func kindNamed(t *testing.T, name string) kind {
	t.Helper()
	if k, ok := settingsKind(name); ok {
		return k
	}
	k, ok := kindOf(group+"/v1", name)
	if !ok {
		t.Fatalf("kind %s is not served", name)
	}
	return k
}

// A field that is ignored silently is a defect: each of Istio's has an entry of its own or below one.
func TestSupportKnowsEveryField(t *testing.T) {
	for _, name := range KindNames() {
		entries := SupportOf(name)
		root := kindNamed(t, name).spec().ProtoReflect().Descriptor()
		paths := map[string]bool{"*": true}
		walk(root, "", 0, func(path string, leaf bool) {
			paths[path] = true
			if _, covered := entryOf(entries, path); leaf && !covered {
				t.Errorf("%s.%s has no entry in support.txt", name, path)
			}
		})
		seen := map[string]bool{}
		for _, s := range entries {
			if !paths[s.Path] {
				t.Errorf("support.txt: %s has no field %s", name, s.Path)
			}
			if seen[s.Path] {
				t.Errorf("support.txt: %s.%s is there twice", name, s.Path)
			}
			seen[s.Path] = true
		}
	}
}

func walk(m protoreflect.MessageDescriptor, above string, depth int, visit func(path string, leaf bool)) {
	if depth > 12 {
		return
	}
	for i := range m.Fields().Len() {
		fd := m.Fields().Get(i)
		path := strings.TrimPrefix(above+"."+fd.JSONName(), ".")
		below := fd.Message()
		if fd.IsMap() {
			below = fd.MapValue().Message()
		}
		leaf := below == nil || below.ParentFile().Package() == "google.protobuf"
		visit(path, leaf)
		if !leaf {
			walk(below, path, depth+1, visit)
		}
	}
}

// docs/compat.md is the table that the validator uses.
func TestCompatIsTheTable(t *testing.T) {
	golden.Document(t, "../../docs/compat.md", compat())
}

func compat() string {
	var b strings.Builder
	b.WriteString(compatHead)
	for _, name := range KindNames() {
		b.WriteString("\n## " + name + "\n\n| field | | |\n|---|---|---|\n")
		for _, s := range SupportOf(name) {
			verdict := "yes"
			if !s.Served {
				verdict = "**no**"
			}
			path := "`" + s.Path + "`"
			if s.Path == "*" {
				path = "all others"
			}
			b.WriteString("| " + path + " | " + verdict + " | " + strings.ReplaceAll(s.Note, "|", "\\|") + " |\n")
		}
	}
	return b.String()
}

const compatHead = `# What becomes of Istio's configuration

Written by ` + "`go test ./discovery/config -update`" + ` from discovery/config/support.txt, which the validator reads too. A line holds for
all below its field that has no line of its own. What says **no** is told as a warning that names the field, wherever
it is set; the rest of its object is served. Kinds that have no table are listed as not supported and skipped.

## Where Istio and Envoy 1.40 disagree, or we do otherwise

- DNS clusters are ` + "`envoy.clusters.dns`" + `: Envoy deprecated STRICT_DNS, LOGICAL_DNS and the cluster's own DNS fields.
- Interception NONE: a listener binds at a loopback address that a service has, or at its port of 127.0.0.1 where the proxy
  has no HTTP_PROXY_PORT. Unknown hosts of the HTTP proxy are resolved by name under ALLOW_ANY, since nobody dialled an address.
- Certificates in files are opened by Envoy itself: one that is missing refuses its cluster or listener, and no other.
  ISTIO_MUTUAL is as a DestinationRule or a Gateway asks for it; inbound listeners do not ask for it by themselves.
- Header values with a % that is no command of Envoy's are refused, since Envoy would refuse the whole route configuration.
- An object with an error is left out alone; Istio may refuse to start over it.
- Matches of a token's claims (@request.auth.claims) are refused: no proxy checks tokens.
- A number in quotes is refused, as an API server refuses it. What Istio's CustomResourceDefinitions refuse is refused here;
  why more is, e2e/crd/divergence_test.go lists.
- Consistent hashing: Envoy gives each of n endpoints ceil(minimumRingSize/n) places in its ring, 1024 by default. Where
  that number is the same with one endpoint less, only the keys of the one that went move; else those who stay get further
  places and take some keys from one another: about one key of eight when one of five goes. A small ring keeps the
  number, and shares keys less evenly: 16 is 4 places for each of five, and of four.
- OpenTelemetry spans are of the service that OTEL_RESOURCE_ATTRIBUTES names in Envoy's environment, else of
  unknown_service:envoy. Istio writes the name into each proxy's listeners, which workloads here share.
- A gateway of a network, by its metadata NETWORK, passes AUTO_PASSTHROUGH connections on to endpoints of that network only, as
  Istio's do with REQUESTED_NETWORK_VIEW.
`
