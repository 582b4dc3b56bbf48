package xds

import (
	"encoding/json"
	"iter"
	"maps"
	"slices"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/pilotlight/pilotlight/discovery/config"
	"github.com/pilotlight/pilotlight/discovery/model"
	"github.com/pilotlight/pilotlight/node"
)

// proxies returns one proxy for each combination of role, interception mode and HTTP proxy that tests use.
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

// FuzzBuild checks that, after any edit of a scenario, nothing panics, equal meshes give equal results, and resources
// that pass validation have no fault that the Go oracle finds; TestEnvoyTakesWhatValidationTakes checks with Envoy
// itself. An input is a scenario, a donor, a proxy, and a program of edits.
func FuzzBuild(f *testing.F) {
	all := drafts(f)
	for i := range all {
		for j := range 5 {
			program := make([]byte, 4*(1+j))
			for k := range program {
				program[k] = byte(i*31 + j*17 + k*53)
			}
			f.Add(uint8(i), uint8(j), uint8(i+j), program)
		}
	}
	f.Fuzz(func(t *testing.T, from, donor, who uint8, program []byte) {
		d := edited(all, from, donor, program)
		objects := d.decode()
		if len(objects) == 0 {
			return
		}
		name, view := viewNumber(int(who))
		m := meshOf(t, objects)
		r := Build(m, view)
		if again := Build(m, view); !sameResources(r, again) {
			t.Errorf("the same mesh gives another configuration")
		}
		if changed := RebuildOutbound(BuildOutbound(m, view.Outbound), m.Next(groupOf(objects)), view.Outbound); !sameResources(
			BuildOutbound(m, view.Outbound), changed) {
			t.Errorf("what was taken over is not what would have been made")
		}
		for _, fault := range faultsOf(r) {
			t.Error(fault)
		}
		d.edit([]byte{who, from, donor, who ^ donor}, all[int(donor)%len(all)]())
		changeBy(t, m, objects, d.decode(), view.Outbound)
		if t.Failed() {
			t.Fatalf("as %s:\n%s", name, d)
		}
	})
}

// changeBy compares the short path from one configuration to the next with the long one, if With accepts the change.
func changeBy(t *testing.T, m *model.Mesh, objects, next []*model.Object, v Outbound) {
	t.Helper()
	known := map[string]int{}
	for i, o := range objects {
		known[o.Key()] = i
	}
	all := slices.Clone(objects)
	var changed []*model.Object
	for _, o := range next {
		i, ok := known[o.Key()]
		if !ok || len(next) != len(objects) {
			return // objects are added or removed
		}
		if was := objects[i]; was.Older(o.Meta) != 0 || !proto.Equal(was.Spec.(proto.Message), o.Spec.(proto.Message)) {
			changed, all[i] = append(changed, o), o
		}
	}
	short, ok := m.With(nil, changed)
	if !ok {
		return
	}
	whole := meshOf(t, all)
	if !sameResources(BuildOutbound(whole, v), RebuildOutbound(BuildOutbound(m, v), short, v)) {
		t.Error("the short path gives something else")
	}
	if a, b := config.OfNotes(whole.Notes()), config.OfNotes(short.Notes()); !slices.Equal(a, b) {
		t.Errorf("the short path notes %v, want %v", b, a)
	}
}

// maxEdits is how many edits of a program are done: more would only remove what is there.
const maxEdits = 8

func edited(all []func() draft, from, donor uint8, program []byte) draft {
	d := all[int(from)%len(all)]()
	d.edit(program[:min(len(program), 4*maxEdits)], all[int(donor)%len(all)]())
	return d
}

func viewNumber(n int) (string, View) {
	names := slices.Sorted(maps.Keys(proxies()))
	name := names[n%len(names)]
	return name, ViewOf(proxies()[name])
}

func groupOf(objects []*model.Object) iter.Seq[model.Group] {
	return slices.Values([]model.Group{{Objects: objects}})
}

func sameResources(a, b *Resources) bool {
	return len(a.Clusters) == len(b.Clusters) && len(a.Endpoints) == len(b.Endpoints) && len(a.Listeners) == len(b.Listeners) &&
		len(a.Routes) == len(b.Routes) &&
		len(changed(a.Clusters, b.Clusters))+len(changed(a.Endpoints, b.Endpoints))+
			len(changed(a.Listeners, b.Listeners))+len(changed(a.Routes, b.Routes)) == 0
}

// changed returns the messages of b that differ from those of a at the same index.
func changed[T proto.Message](a, b []T) []T {
	var out []T
	for i, m := range b {
		if i >= len(a) || !proto.Equal(a[i], m) {
			out = append(out, m)
		}
	}
	return out
}

// FuzzProxy checks that any node is either rejected with an error, or gets a configuration that can be encoded, twice
// the same.
func FuzzProxy(f *testing.F) {
	f.Add("sidecar~10.0.0.1~a.default~"+clusterDomain, `{"NAMESPACE": "default", "LABELS": {"app": "app"}, "INSTANCE_IPS": "fd00::1"}`, "region", "zone")
	f.Add("router~~gw~", `{"NAMESPACE": "istio-system", "LABELS": {"istio": "ingressgateway"}, "NETWORK": "east", "PILOTLIGHT_SDS": "files"}`, "", "")
	f.Add("ingress~x~gw~", `{"LABELS": {"": ""}, "PROXY_CONFIG": {"gatewayTopology": {"numTrustedProxies": 4294967295, "forwardClientCertDetails": 9}}}`, "/", "*")
	f.Add("sidecar~::ffff:10.0.0.1~a~.svc.", `{"INTERCEPTION_MODE": "NONE", "HTTP_PROXY_PORT": "65535", "UNPRIVILEGED_POD": "true"}`, "", "\x00")
	f.Add("sidecar~fe80::1%25eth0~a~x", `{"GENERATOR": "grpc", "ISTIO_VERSION": "1", "PROXY_CONFIG": {"discoveryAddress": "x", "statusPort": -1}, "ENVOY_STATUS_PORT": 1e300}`, "", "")
	f.Add("sidecar~10.0.0.1~a~x", `{"TLS_CLIENT_CERT_CHAIN": "~", "TLS_CLIENT_KEY": "\u0000", "ISTIO_VERSION": "1", "PROXY_CONFIG": {"discoveryAddress": "x"}}`, "", "")
	all := drafts(f)
	var meshes []*model.Mesh
	for i := range all {
		if objects := edited(all, uint8(i), 0, nil).decode(); len(objects) > 0 {
			meshes = append(meshes, model.New(groupOf(objects)))
		}
	}
	f.Fuzz(func(t *testing.T, id, metadata, region, zone string) {
		n := &corev3.Node{Id: id, Locality: &corev3.Locality{Region: region, Zone: zone}}
		var fields map[string]any
		if json.Unmarshal([]byte(metadata), &fields) == nil {
			n.Metadata, _ = structpb.NewStruct(fields)
		}
		wire, err := proto.Marshal(n)
		if err != nil {
			return // a client cannot send it
		}
		if n = new(corev3.Node); proto.Unmarshal(wire, n) != nil {
			return
		}
		p, err := ParseProxy(n)
		if err != nil {
			return
		}
		view := ViewOf(p)
		m := meshes[len(wire)%len(meshes)]
		r := Build(m, view)
		if again := Build(m, ViewOf(p)); view != ViewOf(p) || !sameResources(r, again) {
			t.Errorf("the same node gives another configuration")
		}
		for _, l := range r.Listeners {
			encodes(t, l)
		}
		for _, c := range r.Clusters {
			encodes(t, c)
		}
		for _, c := range r.Routes {
			encodes(t, c)
		}
		for _, e := range r.Endpoints {
			encodes(t, e)
		}
	})
}

func encodes(t *testing.T, m proto.Message) {
	t.Helper()
	if _, err := proto.Marshal(m); err != nil {
		t.Errorf("%v: %v", err, m)
	}
}
