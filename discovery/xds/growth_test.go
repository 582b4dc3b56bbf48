package xds

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/pilotlight/pilotlight/discovery/config"
	"github.com/pilotlight/pilotlight/discovery/model"
)

// What a tenant writes costs a linear amount to index and to build for proxies: eight times as much of it takes about eight times as many
// bytes, whichever list is long. Bytes are measured, not time: what compares without allocating is not seen.
func TestTheCostOfATenantIsLinear(t *testing.T) {
	object := func(kind, name, spec string, args ...any) string {
		api := "networking.istio.io/v1"
		if strings.HasSuffix(kind, "Policy") || strings.HasSuffix(kind, "Authentication") {
			api = "security.istio.io/v1"
		}
		return fmt.Sprintf("apiVersion: %s\nkind: %s\nmetadata: {name: %s, namespace: tenant}\nspec: %s\n---\n", api, kind, name, fmt.Sprintf(spec, args...))
	}
	many := func(n int, one func(i int) string) string {
		var out strings.Builder
		for i := range n {
			out.WriteString(one(i))
		}
		return out.String()
	}
	list := func(n int, one func(i int) string) string {
		return strings.TrimSuffix(many(n, func(i int) string { return one(i) + ", " }), ", ")
	}
	address := func(i int) string { return fmt.Sprintf("10.%d.%d.1", 20+i/250, i%250) }
	entry := func(i int, ports string) string {
		return object("ServiceEntry", fmt.Sprintf("e%d", i), "{hosts: [e%d.test], addresses: [%s], ports: [%s], resolution: STATIC, endpoints: [{address: 192.0.2.1}]}", i, address(i), ports)
	}
	http := "{number: 80, name: http, protocol: HTTP}"
	tcp := "{number: 9000, name: tcp, protocol: TCP}"
	shapes := map[string]func(n int) string{
		"services of HTTP":    func(n int) string { return many(n, func(i int) string { return entry(i, http) }) },
		"services of TCP":     func(n int) string { return many(n, func(i int) string { return entry(i, tcp) }) },
		"services undetected": func(n int) string { return many(n, func(i int) string { return entry(i, "{number: 80, name: x}") }) },
		"services of both": func(n int) string {
			return many(n, func(i int) string { return entry(i, []string{http, "{number: 80, name: tcp, protocol: TCP}"}[i%2]) })
		},
		"hosts of one service": func(n int) string {
			return object("ServiceEntry", "e", "{hosts: [%s], ports: [%s], resolution: STATIC, endpoints: [{address: 192.0.2.1}]}", list(n, func(i int) string { return fmt.Sprintf("e%d.test", i) }), http)
		},
		"addresses of one service": func(n int) string {
			return object("ServiceEntry", "e", "{hosts: [e.test], addresses: [%s], ports: [%s], resolution: STATIC, endpoints: [{address: 192.0.2.1}]}", list(n, address), tcp)
		},
		"endpoints": func(n int) string {
			return object("ServiceEntry", "e", "{hosts: [e.test], ports: [%s], resolution: STATIC, endpoints: [%s]}", http,
				list(n, func(i int) string { return fmt.Sprintf("{address: %s, labels: {version: v%d}}", address(i), i) }))
		},
		"a wide range": func(n int) string {
			return many(n, func(i int) string { return entry(i, "{number: 80, name: http, protocol: HTTP}") }) +
				object("ServiceEntry", "wide", "{hosts: [wide.test], addresses: [10.0.0.0/8], ports: [{number: 80, name: tcp, protocol: TCP}], resolution: STATIC, endpoints: [{address: 192.0.2.2}]}")
		},
		"wide ranges": func(n int) string {
			return many(n, func(i int) string {
				return object("ServiceEntry", fmt.Sprintf("w%d", i), "{hosts: [w%d.test], addresses: [%s/16], ports: [%s], resolution: STATIC, endpoints: [{address: 192.0.2.2}]}", i, address(i), tcp)
			})
		},
		"routes of one host": func(n int) string {
			return entry(0, http) + object("VirtualService", "v", "{hosts: [e0.test], http: [%s]}", list(n, func(i int) string {
				return fmt.Sprintf("{match: [{uri: {prefix: /p%d}}], route: [{destination: {host: e0.test}}]}", i)
			}))
		},
		"rules of many hosts": func(n int) string {
			return many(n, func(i int) string {
				return entry(i, http) + object("VirtualService", fmt.Sprintf("v%d", i), "{hosts: [e%d.test], http: [{route: [{destination: {host: e%d.test}}]}]}", i, i)
			})
		},
		"hosts of one rule": func(n int) string {
			return many(n, func(i int) string { return entry(i, http) }) +
				object("VirtualService", "v", "{hosts: [%s], http: [{route: [{destination: {host: e0.test}}]}]}", list(n, func(i int) string { return fmt.Sprintf("e%d.test", i) }))
		},
		"wildcard hosts": func(n int) string {
			return many(n, func(i int) string {
				return object("ServiceEntry", fmt.Sprintf("e%d", i), "{hosts: ['*.e%d.test'], ports: [%s], resolution: NONE}", i, http)
			})
		},
		"wildcard rules": func(n int) string {
			return many(n, func(i int) string {
				return entry(i, http) + object("VirtualService", fmt.Sprintf("v%d", i), "{hosts: ['*.v%d.test'], http: [{route: [{destination: {host: e%d.test}}]}]}", i, i)
			})
		},
		"subsets": func(n int) string {
			return entry(0, http) + object("DestinationRule", "d", "{host: e0.test, subsets: [%s]}", list(n, func(i int) string { return fmt.Sprintf("{name: s%d, labels: {version: v%d}}", i, i) }))
		},
		"destination rules": func(n int) string {
			return many(n, func(i int) string {
				return entry(i, http) + object("DestinationRule", fmt.Sprintf("d%d", i), "{host: e%d.test, trafficPolicy: {loadBalancer: {simple: RANDOM}}}", i)
			})
		},
		"wildcard destination rules": func(n int) string {
			return many(n, func(i int) string {
				return entry(i, http) + object("DestinationRule", fmt.Sprintf("d%d", i), "{host: '*.d%d.test', trafficPolicy: {loadBalancer: {simple: RANDOM}}}", i)
			})
		},
		"subnets of one rule": func(n int) string {
			return entry(0, tcp) + object("VirtualService", "v", "{hosts: [e0.test], tcp: [%s]}", list(n, func(i int) string {
				return fmt.Sprintf("{match: [{destinationSubnets: [%s]}], route: [{destination: {host: e0.test}}]}", address(i))
			}))
		},
		"server names of one rule": func(n int) string {
			return object("ServiceEntry", "e", "{hosts: ['*.sni.test'], ports: [{number: 443, name: tls, protocol: TLS}], resolution: NONE}") +
				object("VirtualService", "v", "{hosts: ['*.sni.test'], tls: [%s]}", list(n, func(i int) string {
					return fmt.Sprintf("{match: [{port: 443, sniHosts: [e%d.sni.test]}], route: [{destination: {host: e.sni.test}}]}", i)
				}))
		},
		"services of TLS": func(n int) string {
			return many(n, func(i int) string { return entry(i, "{number: 443, name: tls, protocol: TLS}") })
		},
		"servers of a gateway": func(n int) string {
			return object("Gateway", "g", "{selector: {app: app}, servers: [%s]}", list(n, func(i int) string {
				return fmt.Sprintf("{port: {number: 80, name: http%d, protocol: HTTP}, hosts: [g%d.test]}", i, i)
			})) + entry(0, http) + object("VirtualService", "v", "{hosts: ['*'], gateways: [g], http: [{route: [{destination: {host: e0.test}}]}]}")
		},
		"servers of a gateway and their rules": func(n int) string {
			return entry(0, http) + object("Gateway", "g", "{selector: {app: app}, servers: [%s]}", list(n, func(i int) string {
				return fmt.Sprintf("{port: {number: 80, name: http%d, protocol: HTTP}, hosts: [g%d.test]}", i, i)
			})) + many(n, func(i int) string {
				return object("VirtualService", fmt.Sprintf("v%d", i), "{hosts: [g%d.test], gateways: [g], http: [{route: [{destination: {host: e0.test}}]}]}", i)
			})
		},
		"servers of TLS of a gateway and their rules": func(n int) string {
			return entry(0, http) + object("Gateway", "g", "{selector: {app: app}, servers: [%s]}", list(n, func(i int) string {
				return fmt.Sprintf("{port: {number: 443, name: tls%d, protocol: TLS}, tls: {mode: PASSTHROUGH}, hosts: [g%d.test]}", i, i)
			})) + many(n, func(i int) string {
				return object("VirtualService", fmt.Sprintf("v%d", i), "{hosts: [g%d.test], gateways: [g], tls: [{match: [{sniHosts: [g%d.test]}], route: [{destination: {host: e0.test}}]}]}", i, i)
			})
		},
		"redirecting gateways": func(n int) string {
			return entry(0, http) + many(n, func(i int) string {
				return object("Gateway", fmt.Sprintf("g%d", i), "{selector: {app: app}, servers: [{port: {number: 80, name: http, protocol: HTTP}, tls: {httpsRedirect: true}, hosts: [g%d.test]}]}", i) +
					object("VirtualService", fmt.Sprintf("v%d", i), "{hosts: [g%d.test], gateways: [g%d], http: [{route: [{destination: {host: e0.test}}]}]}", i, i)
			})
		},
		"gateways of HTTPS": func(n int) string {
			return entry(0, http) + many(n, func(i int) string {
				return object("Gateway", fmt.Sprintf("g%d", i), "{selector: {app: app}, servers: [{port: {number: 443, name: https, protocol: HTTPS}, tls: {mode: %s, credentialName: c%d}, hosts: [g%d.test]}]}", []string{"SIMPLE", "MUTUAL"}[i%2], i, i) +
					object("VirtualService", fmt.Sprintf("v%d", i), "{hosts: [g%d.test], gateways: [g%d], http: [{route: [{destination: {host: e0.test}}]}]}", i, i)
			})
		},
		"gateways of HTTPS and a wide one": func(n int) string {
			return entry(0, http) + many(n, func(i int) string {
				return object("Gateway", fmt.Sprintf("g%d", i), "{selector: {app: app}, servers: [{port: {number: 443, name: https, protocol: HTTPS}, tls: {mode: MUTUAL, credentialName: c%d}, hosts: [g%d.test]}]}", i, i)
			}) + object("Gateway", "wide", "{selector: {app: app}, servers: [{port: {number: 443, name: https, protocol: HTTPS}, tls: {mode: SIMPLE, credentialName: w}, hosts: ['*.test']}]}") +
				object("VirtualService", "v", "{hosts: ['*.test'], gateways: [wide], http: [{route: [{destination: {host: e0.test}}]}]}")
		},
		"wildcard servers": func(n int) string {
			return entry(0, http) + object("Gateway", "g", "{selector: {app: app}, servers: [%s]}", list(n, func(i int) string {
				return fmt.Sprintf("{port: {number: 443, name: https%d, protocol: HTTPS}, tls: {mode: MUTUAL, credentialName: c}, hosts: ['*.g%d.test']}", i, i)
			})) + object("VirtualService", "v", "{hosts: [%s], gateways: [g], http: [{route: [{destination: {host: e0.test}}]}]}", list(n, func(i int) string { return fmt.Sprintf("x.g%d.test", i) }))
		},
		"gateways": func(n int) string {
			return entry(0, http) + many(n, func(i int) string {
				return object("Gateway", fmt.Sprintf("g%d", i), "{selector: {app: app}, servers: [{port: {number: 443, name: tls, protocol: TLS}, tls: {mode: PASSTHROUGH}, hosts: [g%d.test]}]}", i) +
					object("VirtualService", fmt.Sprintf("v%d", i), "{hosts: [g%d.test], gateways: [g%d], tls: [{match: [{sniHosts: [g%d.test]}], route: [{destination: {host: e0.test}}]}]}", i, i, i)
			})
		},
		"rules of one gateway": func(n int) string {
			return entry(0, http) + object("Gateway", "g", "{selector: {app: app}, servers: [{port: {number: 80, name: http, protocol: HTTP}, hosts: ['*']}]}") +
				many(n, func(i int) string {
					return object("VirtualService", fmt.Sprintf("v%d", i), "{hosts: [g%d.test], gateways: [g], http: [{route: [{destination: {host: e0.test}}]}]}", i)
				})
		},
		"rules of one host of a gateway": func(n int) string {
			return entry(0, http) + object("Gateway", "g", "{selector: {app: app}, servers: [{port: {number: 80, name: http, protocol: HTTP}, hosts: ['*']}]}") +
				many(n, func(i int) string {
					return object("VirtualService", fmt.Sprintf("v%d", i), "{hosts: [g.test], gateways: [g], http: [{match: [{uri: {prefix: /p%d}}], route: [{destination: {host: e0.test}}]}]}", i)
				})
		},
		"policies": func(n int) string {
			return many(n, func(i int) string {
				return object("AuthorizationPolicy", fmt.Sprintf("a%d", i), "{rules: [{to: [{operation: {paths: [/p%d]}}]}]}", i)
			})
		},
		"rules that name many clients": func(n int) string {
			return object("AuthorizationPolicy", "a", "{rules: [{from: [{source: {principals: [%s]}}], when: [{key: 'request.headers[x]', values: [%s]}]}]}",
				list(n, func(i int) string { return fmt.Sprintf("cluster.local/ns/n/sa/s%d", i) }), list(n, func(i int) string { return fmt.Sprintf("v%d", i) }))
		},
		"request authentications": func(n int) string {
			return many(n, func(i int) string {
				return object("RequestAuthentication", fmt.Sprintf("r%d", i), "{jwtRules: [{issuer: i%d, jwksUri: 'https://keys.test/%d'}]}", i, i)
			})
		},
		"telemetries": func(n int) string {
			return many(n, func(i int) string {
				return strings.Replace(object("Telemetry", fmt.Sprintf("t%d", i), "{selector: {matchLabels: {app: a%d}}, accessLogging: [{disabled: true}]}", i), "networking", "telemetry", 1)
			})
		},
		"services with a workload": func(n int) string {
			return many(n, func(i int) string {
				return object("ServiceEntry", fmt.Sprintf("e%d", i), "{hosts: [e%d.test], ports: [{number: %d, name: http, protocol: HTTP}], resolution: STATIC, endpoints: [{address: 10.0.0.1}]}", i, 1000+i)
			})
		},
		"ports of one peer authentication": func(n int) string {
			return object("PeerAuthentication", "p", "{selector: {matchLabels: {app: app}}, portLevelMtls: {%s}}", list(n, func(i int) string { return fmt.Sprintf("%d: {mode: STRICT}", 1000+i) }))
		},
		"rules of one policy": func(n int) string {
			return object("AuthorizationPolicy", "a", "{rules: [%s]}", list(n, func(i int) string { return fmt.Sprintf("{to: [{operation: {paths: [/p%d]}}]}", i) }))
		},
		"peer authentications": func(n int) string {
			return many(n, func(i int) string {
				return object("PeerAuthentication", fmt.Sprintf("p%d", i), "{selector: {matchLabels: {app: a%d}}, mtls: {mode: STRICT}}", i)
			})
		},
		"sidecars": func(n int) string {
			return many(n, func(i int) string {
				return entry(i, http) + object("Sidecar", fmt.Sprintf("s%d", i), "{workloadSelector: {labels: {app: a%d}}, egress: [{hosts: ['./*']}]}", i)
			})
		},
		"egress of one sidecar": func(n int) string {
			return many(n, func(i int) string { return entry(i, http) }) +
				object("Sidecar", "default", "{egress: [{hosts: [%s]}]}", list(n, func(i int) string { return fmt.Sprintf("tenant/e%d.test", i) }))
		},
		"workload entries": func(n int) string {
			return object("ServiceEntry", "e", "{hosts: [e.test], ports: [%s], resolution: STATIC, workloadSelector: {labels: {app: w}}}", http) +
				many(n, func(i int) string {
					return object("WorkloadEntry", fmt.Sprintf("w%d", i), "{address: %s, labels: {app: w}}", address(i))
				})
		},
		"selectors": func(n int) string {
			return many(n, func(i int) string {
				return object("ServiceEntry", fmt.Sprintf("e%d", i), "{hosts: [e%d.test], ports: [%s], resolution: STATIC, workloadSelector: {labels: {app: w%d}}}", i, http, i) +
					object("WorkloadEntry", fmt.Sprintf("w%d", i), "{address: %s, labels: {app: w%d}}", address(i), i)
			})
		},
	}
	measure := func(text string, registry int) (bytes uint64) {
		objects, problems := config.Decode("tenant.yaml", []byte(text))
		for _, p := range problems {
			if p.Severity == config.Error {
				t.Fatal(p)
			}
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		groups := []model.Group{{Objects: objects}}
		for i := range registry {
			s := service(fqdn(fmt.Sprintf("s%d", i)), httpPort(80))
			s.Registry, s.Namespace, s.Name, s.Addresses = "Kubernetes", "shop", s.Host, []string{address(i)}
			groups = append(groups, model.Group{Services: []*model.Service{s}})
		}
		mesh := model.New(slices.Values(groups))
		own := proxies()["redirect"]
		own.Metadata.Namespace = "tenant"
		for _, proxy := range []Proxy{own, proxies()["redirect"], proxies()["router"]} {
			Build(mesh, ViewOf(proxy))
		}
		mesh.Notes()
		runtime.ReadMemStats(&after)
		return after.TotalAlloc - before.TotalAlloc
	}
	check := func(name string, cost func(n int) uint64) {
		t.Run(name, func(t *testing.T) {
			const n, times = 50, 8
			few, many := cost(n), cost(n*times)
			if many > 10*few {
				t.Errorf("%d of them cost %d bytes, %d cost %d", n, few, n*times, many)
			}
		})
	}
	measure(shapes["services of HTTP"](1)+shapes["gateways of HTTPS"](1), 1) // what is made once counts for none
	for name, text := range shapes {
		check(name, func(n int) uint64 { return measure(text(n), 0) })
	}
	check("a wide range with addresses of a registry", func(n int) uint64 { return measure(shapes["a wide range"](1), n) })
}
