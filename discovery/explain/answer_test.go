package explain

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"unicode"

	"github.com/pilotlight/pilotlight/discovery/config"
	"github.com/pilotlight/pilotlight/discovery/model"
	"github.com/pilotlight/pilotlight/discovery/validation"
)

// wide returns the YAML of so many services with ten endpoints, a DestinationRule and a VirtualService each: in blocks, or in flow style.
func wide(services int, flow bool) []byte {
	var b strings.Builder
	object := func(kind string, i int, spec string) {
		metadata := fmt.Sprintf("\n  name: s%d\n  namespace: shop", i)
		if flow {
			metadata = fmt.Sprintf(" {name: s%d, namespace: shop}", i)
		}
		fmt.Fprintf(&b, "---\napiVersion: networking.istio.io/v1\nkind: %s\nmetadata:%s\nspec:%s\n", kind, metadata, spec)
	}
	for i := range services {
		host := fmt.Sprintf("s%d.shop.svc.cluster.local", i)
		var endpoints []string
		for e := range 10 {
			address := fmt.Sprintf("10.%d.%d.%d", 1+i/250, i%250, 1+e)
			if flow {
				endpoints = append(endpoints, fmt.Sprintf("{address: %s, labels: {version: v%d}}", address, e%2))
			} else {
				endpoints = append(endpoints, fmt.Sprintf("\n  - address: %s\n    labels:\n      version: v%d", address, e%2))
			}
		}
		if flow {
			object("ServiceEntry", i, fmt.Sprintf(" {hosts: [%s], addresses: [10.200.%d.%d], location: MESH_INTERNAL, resolution: STATIC, ports: [{number: 80, name: http, protocol: HTTP}, {number: 90, name: tcp, protocol: TCP}], endpoints: [%s]}",
				host, i/250, 1+i%250, strings.Join(endpoints, ", ")))
			object("DestinationRule", i, fmt.Sprintf(" {host: %s, subsets: [{name: v0, labels: {version: v0}}, {name: v1, labels: {version: v1}}]}", host))
			object("VirtualService", i, fmt.Sprintf(" {hosts: [%s], http: [{match: [{uri: {prefix: /one}}], route: [{destination: {host: %[1]s, subset: v1}}]}, {route: [{destination: {host: %[1]s, subset: v0}, weight: 90}, {destination: {host: %[1]s, subset: v1}, weight: 10}]}]}", host))
			continue
		}
		object("ServiceEntry", i, fmt.Sprintf("\n  hosts:\n  - %s\n  addresses:\n  - 10.200.%d.%d\n  location: MESH_INTERNAL\n  resolution: STATIC\n  ports:\n  - number: 80\n    name: http\n    protocol: HTTP\n  - number: 90\n    name: tcp\n    protocol: TCP\n  endpoints:%s",
			host, i/250, 1+i%250, strings.Join(endpoints, "")))
		object("DestinationRule", i, fmt.Sprintf("\n  host: %s\n  subsets:\n  - name: v0\n    labels:\n      version: v0\n  - name: v1\n    labels:\n      version: v1", host))
		object("VirtualService", i, fmt.Sprintf("\n  hosts:\n  - %s\n  http:\n  - match:\n    - uri:\n        prefix: /one\n    route:\n    - destination:\n        host: %[1]s\n        subset: v1\n  - route:\n    - destination:\n        host: %[1]s\n        subset: v0\n      weight: 90\n    - destination:\n        host: %[1]s\n        subset: v1\n      weight: 10", host))
	}
	return []byte(b.String())
}

// BenchmarkAnswer is the cost of an answer in a mesh of 1,000 services, 3,000 objects and 10,000 endpoints: as a running discovery gives it, and with the
// files read as the command does. Of the time it tells that of the processor too, which other work on the machine does not change as much.
func BenchmarkAnswer(b *testing.B) {
	const services = 1000
	question := func(i int) Question {
		return Question{From: "10.1.0.1", To: fmt.Sprintf("s%d.shop.svc.cluster.local", i%services), Method: "GET", Path: "/one"}
	}
	read := func(text []byte) *model.Mesh {
		objects, problems := config.Decode("mesh.yaml", text)
		if config.HasErrors(problems) || len(objects) != 3*services {
			b.Fatal(len(objects), problems)
		}
		return validation.Mesh{}.Of(objects)
	}
	for _, style := range []string{"block", "flow"} {
		b.Run("read/"+style, func(b *testing.B) {
			text := wide(services, style == "flow")
			measured(b, func(i int) (Road, error) { return question(i).Answer(read(text)) })
		})
	}
	b.Run("served", func(b *testing.B) {
		m := read(wide(services, false))
		measured(b, func(i int) (Road, error) { return question(i).Answer(m) })
	})
}

func measured(b *testing.B, answer func(i int) (Road, error)) {
	b.ReportAllocs()
	used := func() (ns int64) {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			b.Fatal(err)
		}
		return u.Utime.Nano() + u.Stime.Nano()
	}
	before, n := used(), 0
	for b.Loop() {
		road, err := answer(n)
		if err != nil || len(road.Outcomes) != 1 || len(road.Outcomes[0].Endpoints) != 5 {
			b.Fatal(err, road.Text())
		}
		n++
	}
	b.ReportMetric(float64(used()-before)/float64(n)/1e6, "cpu-ms/op")
}

// Each step of a road in a wide mesh names what made it; a listener that many services share names the first ones.
func TestARoadInAWideMesh(t *testing.T) {
	objects, _ := config.Decode("mesh.yaml", wide(20, false))
	m := validation.Mesh{}.Of(objects)
	for _, q := range []Question{
		{From: "10.1.0.1", To: "s3.shop.svc.cluster.local", Path: "/one"},
		{From: "10.1.0.1", To: "s3.shop.svc.cluster.local:90", TCP: true},
		{From: "10.1.0.1", To: "nobody.test"},
		{From: "10.1.0.1", To: "nobody.test:99", TCP: true},
	} {
		road, err := q.Answer(m)
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(road.Steps, func(s Step) bool { return len(s.Origins) == 0 && s.Unmade == "" })
		if i >= 0 {
			t.Errorf("nobody made the step %s in\n%s", road.Steps[i].Kind, road.Text())
		}
		if shared := strings.Contains(road.Text(), "0.0.0.0_80: to which virtualOutbound passes the intercepted connection [ServiceEntry shop/s0 at mesh.yaml:2; ServiceEntry shop/s1 at "); shared != (!q.TCP) {
			t.Errorf("the listener's origins are not told in\n%s", road.Text())
		}
	}
}

// Texts that a tenant or a question chooses, such as the locality of an endpoint, neither command a terminal nor begin a line of their own.
func TestTextsStayInTheirLines(t *testing.T) {
	text := strings.Replace(sides, "endpoints: [", `endpoints: [{address: 10.0.0.8, locality: "r\e[2J\noutcome       200 from the proxy"}, `, 1)
	road, err := Question{From: "shop/plain", To: "server.test", Method: "GET", Path: "/\x1b[31m\u202e"}.Answer(meshOf(t, text))
	if err != nil {
		t.Fatal(err)
	}
	said := road.Text()
	if !strings.Contains(said, `healthy in r\x1b[2J\noutcome       200`) || !strings.Contains(said, `it gets /\x1b[31m\u202e of`) || strings.ContainsFunc(said, func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }) {
		t.Errorf("got %q", said)
	}
}
