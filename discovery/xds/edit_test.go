package xds

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/pilotlight/pilotlight/discovery/config"
	"github.com/pilotlight/pilotlight/discovery/model"
)

// draft is a mesh's configuration as editable YAML: objects, and the two files of settings.
type draft struct {
	objects  []*yaml.Node
	settings map[string]*yaml.Node // MeshConfig, MeshNetworks
	own      View                  // of the scenario's proxy
}

// drafts returns a reader for every scenario, ordered by file name.
func drafts(tb testing.TB) []func() draft {
	tb.Helper()
	files, err := filepath.Glob("testdata/scenario/*.yaml")
	if err != nil || len(files) == 0 {
		tb.Fatalf("no scenarios: %v", err)
	}
	var out []func() draft
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			tb.Fatal(err)
		}
		first, _, _ := strings.Cut(string(data), "\n")
		var head scenario
		if err := json.Unmarshal([]byte(strings.TrimPrefix(first, "# ")), &head); err != nil {
			tb.Fatal(err)
		}
		proxy, _ := scenarioProxy(tb, strings.TrimPrefix(first, "# "))
		out = append(out, func() draft {
			d := draft{parseYAML(data), map[string]*yaml.Node{}, ViewOf(proxy)}
			for kind, text := range map[string]json.RawMessage{"MeshConfig": head.Mesh, "MeshNetworks": head.Networks} {
				for _, node := range parseYAML(text) {
					d.settings[kind] = node
				}
			}
			return d
		})
	}
	return out
}

func parseYAML(data []byte) (out []*yaml.Node) {
	for decoder := yaml.NewDecoder(bytes.NewReader(data)); ; {
		var document yaml.Node
		if decoder.Decode(&document) != nil {
			return out
		}
		out = append(out, &document)
	}
}

// decode returns the objects of the draft that pass validation.
func (d draft) decode() []*model.Object {
	var text bytes.Buffer
	encoder := yaml.NewEncoder(&text)
	for _, object := range d.objects {
		if encoder.Encode(object) != nil {
			return nil
		}
	}
	objects, _ := config.Decode("f", text.Bytes())
	for _, kind := range []string{"MeshConfig", "MeshNetworks"} {
		if node := d.settings[kind]; node != nil {
			data, err := yaml.Marshal(node)
			if err != nil {
				return nil
			}
			if o, _ := config.DecodeSettings(kind, kind, data); o != nil {
				objects = append(objects, o)
			}
		}
	}
	return objects
}

func (d draft) String() string {
	var text bytes.Buffer
	encoder := yaml.NewEncoder(&text)
	for _, root := range d.roots() {
		_ = encoder.Encode(root) // output for people only
	}
	return text.String()
}

func (d draft) roots() []*yaml.Node {
	out := slices.Clone(d.objects)
	for _, kind := range []string{"MeshConfig", "MeshNetworks"} {
		if node := d.settings[kind]; node != nil {
			out = append(out, node)
		}
	}
	return out
}

// spot is one node below another.
type spot struct {
	parent *yaml.Node
	index  int // in the parent's content
}

func (s spot) node() *yaml.Node { return s.parent.Content[s.index] }

// key returns the node's key in a mapping, "" for an item of a list.
func (s spot) key() string {
	if s.parent.Kind == yaml.MappingNode && s.index%2 == 1 {
		return s.parent.Content[s.index-1].Value
	}
	return ""
}

// spots returns the values below roots, without the keys.
func spots(roots []*yaml.Node) (out []spot) {
	for _, root := range roots {
		for i, child := range root.Content {
			if root.Kind != yaml.MappingNode || i%2 == 1 {
				out = append(out, spot{root, i})
			}
			out = append(out, spots([]*yaml.Node{child})...)
		}
	}
	return out
}

// edit changes the draft by a program of four bytes for each edit: the operation, the place and the value. It copies
// parts from donor.
func (d draft) edit(program []byte, donor draft) {
	lent := spots(donor.roots())
	for ; len(program) >= 4; program = program[4:] {
		all := spots(d.roots())
		if len(all) == 0 || len(lent) == 0 {
			return
		}
		at := all[(int(program[1])<<8|int(program[2]))%len(all)]
		with := int(program[3])
		same := slices.DeleteFunc(slices.Clone(lent), func(s spot) bool { return s.key() != at.key() })
		switch program[0] % 5 {
		case 0:
			if at.node().Kind == yaml.ScalarNode {
				at.parent.Content[at.index] = &yaml.Node{Kind: yaml.ScalarNode, Value: values[with%len(values)]}
			}
		case 1: // the value of the same field in another object
			if len(same) > 0 {
				at.parent.Content[at.index] = cloneOf(same[with%len(same)].node())
			}
		case 2:
			at.remove()
		case 3:
			if at.parent.Kind == yaml.SequenceNode {
				at.parent.Content = slices.Insert(at.parent.Content, at.index, cloneOf(at.node()))
			}
		case 4: // another object's field in such a place
			same = slices.DeleteFunc(same, func(s spot) bool { return s.node().Kind != yaml.MappingNode })
			if at.node().Kind == yaml.MappingNode && len(same) > 0 {
				at.graft(same[with%len(same)].node(), int(program[2]))
			}
		}
	}
}

func (s spot) remove() {
	from := s.index
	if s.parent.Kind == yaml.MappingNode {
		from--
	}
	if s.parent.Kind != yaml.DocumentNode {
		s.parent.Content = slices.Delete(s.parent.Content, from, s.index+1)
	}
}

func (s spot) graft(from *yaml.Node, pick int) {
	if len(from.Content) < 2 {
		return
	}
	i := pick % (len(from.Content) / 2) * 2
	key, value := from.Content[i], from.Content[i+1]
	into := s.node()
	for j := 0; j+1 < len(into.Content); j += 2 {
		if into.Content[j].Value == key.Value {
			return
		}
	}
	into.Content = append(into.Content, cloneOf(key), cloneOf(value))
}

// cloneOf copies a node, so that a node that is inserted below itself makes no cycle.
func cloneOf(n *yaml.Node) *yaml.Node {
	out := *n
	out.Content = nil
	for _, child := range n.Content {
		out.Content = append(out.Content, cloneOf(child))
	}
	return &out
}

// values are at the limits of the fields' ranges.
var values = []string{
	"", "*", "0", "1", "-1", "2", "100", "101", "65535", "65536", "2147483647", "2147483648", "4294967295",
	"4294967296", "1e300", "0.5", ".nan", "0s", "1ms", "1us", "1s", "-1s", "876000h", "2562047h", "true", "false",
	"null", "a", "b", "a.b", "*.a.b", "*.b", "*-a.b", "A.B", "a..b", "-", "mesh", "default/a", "istio-system/gw",
	"./*", "*/*", "~", ".", "a.default.svc.cluster.local", "b.default.svc.cluster.local", "a.example.com", "/",
	"//", "/a", "%", "%%", "%REQ(X)%", "%PREFIX()%", "%START_TIME(%Y)%", "\\1", "\\0", "[", ".*", "(?i)a",
	"(a)|(b)", "^$", "[[:word:]]", "\\pL", "unix:///a", "unix://@a", "0.0.0.0", "::", "::1", "127.0.0.1",
	"10.0.0.2", "10.0.0.0/8", "::/0", "0.0.0.0/0", "::ffff:10.0.0.1", "fe80::1%eth0", "HTTP", "HTTP2", "GRPC",
	"GRPC-WEB", "TCP", "TLS", "HTTPS", "UDP", "MONGO", "NONE", "STATIC", "DNS", "DNS_ROUND_ROBIN", "PASSTHROUGH",
	"SIMPLE", "MUTUAL", "ISTIO_MUTUAL", "AUTO_PASSTHROUGH", "OPTIONAL_MUTUAL", "DISABLE", "IPTABLES",
	"REGISTRY_ONLY", "ALLOW_ANY", "UPGRADE", "ROUND_ROBIN", "RANDOM", "LEAST_REQUEST", "x-a", "host", ":path",
	":authority", "a b", "a\nb", "é",
	strings.Repeat("a", 300), strings.Repeat("a.", 100) + "a",
	"west", "west/1", "west/1/a", "west/*", "*", "topology.kubernetes.io/zone", "app=a", "{}", "[]",
}
