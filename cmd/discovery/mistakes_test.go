package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pilotlight/pilotlight/discovery/config"
	"github.com/pilotlight/pilotlight/discovery/config/file"
	"github.com/pilotlight/pilotlight/discovery/model"
)

// judged returns all problems that validate reports for some files.
func judged(files ...file.File) []config.Problem {
	objects, problems := file.Check(files)
	mesh := model.NewOf(model.Settings{LoopbackEndpoints: true}, slices.Values([]model.Group{{Objects: objects}}))
	return append(problems, config.OfNotes(mesh.Notes())...)
}

// sound is a mesh without problems; a mistake is added to it.
const sound = `
ServiceEntry shop/reviews
  hosts: [reviews.shop.svc.cluster.local]
  location: MESH_INTERNAL
  resolution: STATIC
  ports: [{number: 80, name: http, protocol: HTTP}]
  endpoints: [{address: 10.0.0.1, serviceAccount: reviews, labels: {app: reviews, version: v1}}, {address: 10.0.0.2, serviceAccount: reviews, labels: {app: reviews, version: v2}}]
ServiceEntry shop/db
  hosts: [db.shop.svc.cluster.local]
  addresses: [10.96.0.9]
  location: MESH_INTERNAL
  resolution: STATIC
  ports: [{number: 3306, name: mysql, protocol: MYSQL}]
  endpoints: [{address: 10.0.0.3, labels: {app: db}}]
ServiceEntry web/www
  hosts: [www.example.com, "*.wild.example.com"]
  resolution: NONE
  ports: [{number: 80, name: http, protocol: HTTP}]
`

// mistakes are configurations that Istio accepts without a message, each with its only problem, and a similar one that
// is right. The line is that of the mistake's own text.
var mistakes = map[string]struct {
	wrong, want string // "line path: the message's start … its end"
	right       string
}{
	"a host of routes that nobody has": {
		"VirtualService shop/a\n  hosts:\n  - reviewz\n  http: [{route: [{destination: {host: reviews}}]}]",
		"3 spec.hosts[0]: no service has the host reviewz.shop.svc.cluster.local: nobody follows these routes; did you mean reviews.shop.svc.cluster.local?",
		"VirtualService shop/a\n  hosts: [reviews, virtual.example.com, a.wild.example.com, '*.shop.svc.cluster.local']\n  http: [{route: [{destination: {host: reviews}}]}]",
	},
	"mutual TLS in which clients check nobody": {
		"DestinationRule shop/a\n  host: db\n  trafficPolicy:\n    tls: {mode: ISTIO_MUTUAL}",
		"4 spec.trafficPolicy.tls: clients speak mutual TLS to endpoints of db.shop.svc.cluster.local, and none names an account: they accept every certificate of the mesh; want serviceAccount, or subjectAltNames",
		"DestinationRule shop/a\n  host: db\n  trafficPolicy: {tls: {mode: ISTIO_MUTUAL, subjectAltNames: [spiffe://cluster.local/ns/shop/sa/db]}}",
	},
	"a destination that nobody has": {
		"VirtualService web/a\n  hosts: [www.example.com]\n  http:\n  - route:\n    - destination:\n        host: reviews",
		"6 spec.http[0].route[0].destination.host: no service has the host reviews.web.svc.cluster.local: requests are answered 503; did you mean reviews.shop.svc.cluster.local?",
		"VirtualService web/a\n  hosts: [www.example.com]\n  http: [{route: [{destination: {host: reviews.shop.svc.cluster.local}}]}]",
	},
	"a destination that nobody has, in a delegate": {
		"VirtualService web/a\n  hosts: [www.example.com]\n  http: [{delegate: {name: b}}]\nVirtualService web/b\n  http:\n  - match: [{uri: {prefix: /}}]\n    route: [{destination: {host: x.org}}]",
		"7 spec.http[0].route[0].destination.host: no service has the host x.org: requests are answered 503; want a ServiceEntry that declares it",
		"VirtualService web/a\n  hosts: [www.example.com]\n  http: [{delegate: {name: b}}]\nVirtualService web/b\n  http: [{route: [{destination: {host: www.example.com}}]}]",
	},
	"a mirror that nobody has": {
		"VirtualService shop/a\n  hosts: [reviews]\n  http:\n  - route: [{destination: {host: reviews}}]\n    mirror: {host: copy}",
		"5 spec.http[0].mirror.host: no service has the host copy.shop.svc.cluster.local: nothing is mirrored; want a ServiceEntry that declares it",
		"VirtualService shop/a\n  hosts: [reviews]\n  http: [{route: [{destination: {host: reviews}}], mirror: {host: reviews}}]",
	},
	"a policy for a host that nobody has": {
		"DestinationRule shop/a\n  host: review",
		"2 spec.host: no service has the host review.shop.svc.cluster.local: nothing follows this policy; did you mean reviews.shop.svc.cluster.local?",
		"DestinationRule shop/a\n  host: '*.shop.svc.cluster.local'",
	},
	"a weight missing": {
		"VirtualService shop/a\n  hosts: [reviews]\n  http:\n  - route:\n    - destination: {host: reviews}\n      weight: 90\n    - destination: {host: www.example.com}",
		"7 spec.http[0].route[1].weight: is missing beside others: the destination gets nothing; want a weight, or 0 to say so",
		"VirtualService shop/a\n  hosts: [reviews]\n  http: [{route: [{destination: {host: reviews}, weight: 90}, {destination: {host: www.example.com}, weight: 0}]}]",
	},
	"a weight missing, of bytes": {
		"VirtualService shop/a\n  hosts: [db]\n  tcp:\n  - route: [{destination: {host: db}, weight: 90}, {destination: {host: db}}]",
		"4 spec.tcp[0].route[1].weight: is missing beside others: the destination gets nothing; want a weight, or 0 to say so",
		"VirtualService shop/a\n  hosts: [db]\n  tcp: [{route: [{destination: {host: db}}]}]",
	},
	"labels of a subset that match nothing": {
		"DestinationRule shop/a\n  host: reviews\n  subsets:\n  - name: v1\n    labels: {version: 'v1'}\n  - name: v3\n    labels:\n      version: v3",
		"7 spec.subsets[1].labels: no endpoint of reviews.shop.svc.cluster.local has version=v3: requests to the subset are answered 503; one of its endpoints has app=reviews, version=v2",
		"DestinationRule shop/a\n  host: reviews\n  subsets: [{name: v1, labels: {version: v1}}, {name: all}]",
	},
	"a try longer than all of them": {
		"VirtualService shop/a\n  hosts: [reviews]\n  http:\n  - route: [{destination: {host: reviews}}]\n    timeout: 1s\n    retries:\n      attempts: 3\n      perTryTimeout: 2s",
		"8 spec.http[0].retries.perTryTimeout: is 2s, and the timeout of all tries together is 1s: no try lasts that long",
		"VirtualService shop/a\n  hosts: [reviews]\n  http: [{route: [{destination: {host: reviews}}], timeout: 0s, retries: {attempts: 3, perTryTimeout: 2s}}]",
	},
	"a port without protocol": {
		"ServiceEntry shop/a\n  hosts: [a.test]\n  addresses: [10.96.0.1]\n  resolution: STATIC\n  endpoints: [{address: 10.0.0.9}]\n  ports:\n  - number: 80\n    name: http",
		"7 spec.ports[0].protocol: is missing: the first bytes of each connection decide, and a server that speaks first is not found out; want HTTP, HTTP2, GRPC, TLS, TCP or another",
		"ServiceEntry shop/a\n  hosts: [a.test]\n  resolution: STATIC\n  endpoints: [{address: 10.0.0.9}]\n  ports: [{number: 80, name: a, protocol: HTTP}]",
	},
	"bytes to no address": {
		"ServiceEntry shop/a\n  hosts: [a.test]\n  resolution: DNS\n  ports: [{number: 5432, name: tcp, protocol: TCP}]",
		"1 spec.addresses: is empty: every connection to port 5432, to whatever address, goes to this service; want the addresses that its clients dial",
		"ServiceEntry shop/a\n  hosts: [a.test]\n  resolution: DNS\n  ports: [{number: 5432, name: tls, protocol: TLS}]",
	},
	"a Gateway that selects nobody": {
		"WorkloadEntry shop/gw\n  address: 10.0.0.7\n  labels: {istio: ingressgateway}\nGateway shop/a\n  selector:\n    istio: ingresgateway\n  servers: [{port: {number: 80, name: http, protocol: HTTP}, hosts: ['*']}]",
		"6 spec.selector.istio: no workload that is known has istio=ingresgateway; did you mean istio=ingressgateway?",
		"WorkloadEntry web/gw\n  address: 10.0.0.7\n  labels: {istio: ingressgateway}\nGateway shop/a\n  selector: {istio: ingressgateway, other: label}\n  servers: [{port: {number: 80, name: http, protocol: HTTP}, hosts: ['*']}]",
	},
	"a Sidecar that selects nobody": {
		"Sidecar shop/a\n  workloadSelector:\n    labels:\n      app: review\n  egress: [{hosts: ['./*']}]",
		"4 spec.workloadSelector.labels.app: no workload that is known has app=review; did you mean app=reviews?",
		"Sidecar shop/a\n  workloadSelector: {labels: {app: reviews}}\n  egress: [{hosts: ['./*', 'istio-system/*']}]",
	},
	"egress to a host that nobody has": {
		"Sidecar shop/a\n  egress:\n  - hosts:\n    - web/www.example.com\n    - ./www.example.com",
		"5 spec.egress[0].hosts[1]: stands for no service that namespace shop sees: nothing is imported by it; want a host of a ServiceEntry of namespace shop",
		"Sidecar shop/a\n  egress: [{hosts: ['web/*.example.com', '*/reviews.shop.svc.cluster.local', '~/*']}]",
	},
	"egress to a namespace that nobody is in": {
		"Sidecar shop/a\n  egress:\n  - hosts: ['wed/*']",
		"3 spec.egress[0].hosts[0]: nothing is known of namespace wed; did you mean web?",
		"Sidecar shop/a\n  egress: [{port: {number: 80, name: http, protocol: HTTP}, hosts: ['web/*', 'istio-system/*', './*']}, {hosts: ['*/*']}]",
	},
	"TLS dropped by a narrower rule": {
		"DestinationRule shop/all\n  host: '*.shop.svc.cluster.local'\n  trafficPolicy: {tls: {mode: ISTIO_MUTUAL}}\nDestinationRule shop/reviews\n  host: reviews\n  trafficPolicy:\n    loadBalancer: {simple: RANDOM}",
		"6 spec.trafficPolicy: takes the place of the policy of DestinationRule shop/all, whose tls ISTIO_MUTUAL is not repeated here: " +
			"connections to reviews.shop.svc.cluster.local are plain text; want tls here too, or mode DISABLE",
		"DestinationRule shop/all\n  host: '*.shop.svc.cluster.local'\n  trafficPolicy: {tls: {mode: ISTIO_MUTUAL}}\nDestinationRule shop/reviews\n  host: reviews\n  trafficPolicy: {tls: {mode: DISABLE}}",
	},
	"TLS of the root namespace dropped": {
		"DestinationRule istio-system/all\n  host: '*.local'\n  trafficPolicy: {tls: {mode: ISTIO_MUTUAL}}\nDestinationRule shop/reviews\n  host: reviews\n  subsets: [{name: v1, labels: {version: v1}}]",
		"4 spec.trafficPolicy: takes the place of the policy of DestinationRule istio-system/all, whose tls ISTIO_MUTUAL is not repeated here: " +
			"connections to reviews.shop.svc.cluster.local are plain text; want tls here too, or mode DISABLE",
		"DestinationRule istio-system/all\n  host: '*.local'\n  trafficPolicy: {tls: {mode: ISTIO_MUTUAL}}\nDestinationRule shop/reviews\n  host: reviews\n  trafficPolicy: {tls: {mode: ISTIO_MUTUAL}}",
	},
	"TLS dropped for a port": {
		"DestinationRule shop/a\n  host: reviews\n  trafficPolicy:\n    tls: {mode: ISTIO_MUTUAL}\n    portLevelSettings:\n    - port: {number: 80}\n      connectionPool: {tcp: {maxConnections: 1}}",
		"6 spec.trafficPolicy.portLevelSettings[0].tls: is missing: for port 80 this is in the place of all the policy, its tls ISTIO_MUTUAL too, " +
			"and connections are plain text; want tls here as well, or mode DISABLE",
		"DestinationRule shop/a\n  host: reviews\n  trafficPolicy: {portLevelSettings: [{port: {number: 80}, connectionPool: {tcp: {maxConnections: 1}}}]}",
	},
	"a port that ends TLS, and plain clients": {
		"Sidecar shop/a\n  workloadSelector: {labels: {app: reviews}}\n  ingress:\n  - port: {number: 80, name: https, protocol: HTTPS}\n    defaultEndpoint: 127.0.0.1:8080\n    tls: {mode: SIMPLE, serverCertificate: /c, privateKey: /k}",
		"6 spec.ingress[0].tls: clients of reviews.shop.svc.cluster.local speak plain text to this port: want a DestinationRule with tls for it",
		"Sidecar shop/a\n  workloadSelector: {labels: {app: reviews}}\n  ingress:\n  - port: {number: 80, name: https, protocol: HTTPS}\n    defaultEndpoint: 127.0.0.1:8080\n    tls: {mode: SIMPLE, serverCertificate: /c, privateKey: /k}\n" +
			"DestinationRule shop/reviews\n  host: reviews\n  trafficPolicy: {tls: {mode: SIMPLE}}",
	},
	"plain clients of port 443": {
		"ServiceEntry web/a\n  hosts: [a.example.org]\n  resolution: DNS\n  ports:\n  - number: 443\n    name: http\n    protocol: HTTP",
		"7 spec.ports[0].protocol: is HTTP: clients speak plain text to port 443, where servers expect TLS; want HTTPS, or a DestinationRule with tls for the host",
		"ServiceEntry web/a\n  hosts: [a.example.org]\n  resolution: DNS\n  ports: [{number: 443, name: http, protocol: HTTP}]\nDestinationRule web/a\n  host: a.example.org\n  trafficPolicy: {tls: {mode: SIMPLE}}",
	},
	"outlier detection of two endpoints": {
		"DestinationRule shop/a\n  host: reviews\n  trafficPolicy:\n    outlierDetection: {consecutive5xxErrors: 1}",
		"4 spec.trafficPolicy.outlierDetection: ejects no endpoint: one of 2 is 50 %, and maxEjectionPercent is 10; want maxEjectionPercent 50 or more",
		"DestinationRule shop/a\n  host: reviews\n  trafficPolicy: {outlierDetection: {consecutive5xxErrors: 1, maxEjectionPercent: 50}}",
	},
	"failover without outlierDetection": {
		"DestinationRule shop/a\n  host: reviews\n  trafficPolicy:\n    loadBalancer:\n      localityLbSetting:\n        failover: [{from: west, to: east}]",
		"6 spec.trafficPolicy.loadBalancer.localityLbSetting.failover: does nothing without outlierDetection, which finds endpoints that fail; want outlierDetection beside loadBalancer",
		"DestinationRule shop/a\n  host: reviews\n  trafficPolicy: {outlierDetection: {maxEjectionPercent: 100}}\n  subsets: [{name: v1, labels: {version: v1}, trafficPolicy: {loadBalancer: {localityLbSetting: {failoverPriority: [app]}}}}]",
	},
	"HTTP routes of bytes": {
		"VirtualService shop/a\n  hosts: [db]\n  http:\n  - route: [{destination: {host: reviews}}]",
		"3 spec.http: no port of db.shop.svc.cluster.local is HTTP, port 3306 is MYSQL: nobody follows these routes; want tcp or tls routes, or another protocol of the port",
		"VirtualService shop/a\n  hosts: [db]\n  tcp: [{route: [{destination: {host: db}}]}]",
	},
	"exported to a namespace that nobody is in": {
		"VirtualService shop/a\n  hosts: [reviews]\n  exportTo:\n  - .\n  - shopp\n  http: [{route: [{destination: {host: reviews}}]}]",
		"5 spec.exportTo[1]: nothing is known of namespace shopp; did you mean shop?",
		"VirtualService shop/a\n  hosts: [reviews]\n  exportTo: [., web]\n  http: [{route: [{destination: {host: reviews}}]}]",
	},
}

func TestMistakes(t *testing.T) {
	if problems := judged(yamlOf("sound", sound)); len(problems) > 0 {
		t.Fatalf("the sound mesh: %v", problems)
	}
	for name, test := range mistakes {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, p := range judged(yamlOf("sound", sound), yamlOf("x", test.wrong)) {
				if p.File != "x" || p.Severity != config.Warning {
					t.Errorf("unasked: %v", p)
				}
				got = append(got, fmt.Sprintf("%d %s: %s", mistakeLine(p.Line, test.wrong), p.Path, p.Message))
			}
			if diff := cmp.Diff([]string{test.want}, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			for _, p := range judged(yamlOf("sound", sound), yamlOf("x", test.right)) {
				t.Errorf("the neighbour: %v", p)
			}
		})
	}
}

// The configuration of the example Bookinfo has no problem.
func TestNoMistakes(t *testing.T) {
	files, err := file.Read(filepath.Join("..", "..", "examples", "bookinfo", "config"))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range judged(files...) {
		t.Error(p)
	}
}

// yamlOf writes objects, whose first line is "Kind namespace/name" and whose spec is indented below it. An object is
// written on the lines where the text has it, with what goes before joined to its first line.
func yamlOf(name, text string) file.File {
	var b strings.Builder
	for line := range strings.Lines(strings.TrimPrefix(text, "\n")) {
		if strings.HasPrefix(line, " ") {
			b.WriteString(line)
			continue
		}
		kind, object, _ := strings.Cut(strings.TrimSpace(line), " ")
		namespace, short, _ := strings.Cut(object, "/")
		fmt.Fprintf(&b, "\n---\napiVersion: networking.istio.io/v1\nkind: %s\nmetadata: {name: %s, namespace: %s}\nspec:\n", kind, short, namespace)
	}
	return file.File{Name: name, Data: []byte(b.String())}
}

// mistakeLine returns the line of the text for a line of the YAML.
func mistakeLine(line int, text string) int {
	n := 0
	for i, l := range strings.Split(text, "\n") {
		n++
		if !strings.HasPrefix(l, " ") {
			n += 5
		}
		if n >= line {
			return i + 1
		}
	}
	return 0
}
