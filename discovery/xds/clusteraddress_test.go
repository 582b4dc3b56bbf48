package xds

import (
	"fmt"
	"slices"
	"testing"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// A proxy reaches a service of two clusters at the address that the proxy's own cluster gives it: in listeners, in the
// domains of routes and in DNS answers. A proxy of a third cluster reaches it at the owner's address.
func TestAddressesOfTheProxysCluster(t *testing.T) {
	in := func(cluster, host, address, endpoint string, port model.Port) *model.Service {
		s := service(host, port, model.Endpoint{Address: endpoint, Cluster: cluster})
		s.Registry, s.Cluster, s.Name, s.Addresses = "Kubernetes", cluster, "x", []string{address}
		return s
	}
	tcp := model.Port{Name: "tcp", Number: 9000, Protocol: model.TCP}
	web, bytes, ranged := fqdn("web"), fqdn("bytes"), fqdn("ranged")
	m := mesh(
		in("east", web, "10.96.0.1", "10.1.0.1", httpPort(80)), in("west", web, "10.97.0.1", "10.2.0.1", httpPort(80)),
		in("east", bytes, "10.96.0.2", "10.1.0.2", tcp), in("west", bytes, "10.97.0.2", "10.2.0.2", tcp),
		in("east", ranged, "10.96.1.0/24", "10.1.0.3", tcp), in("west", ranged, "10.97.1.0/24", "10.2.0.3", tcp),
	)
	view := func(cluster string) View {
		proxy := proxies()["redirect"]
		proxy.Metadata.Extra = map[string]any{"CLUSTER_ID": cluster}
		return ViewOf(proxy)
	}
	for cluster, net := range map[string]string{"east": "10.96", "west": "10.97", "north": "10.96", "": "10.96"} {
		t.Run(cluster, func(t *testing.T) {
			v := view(cluster)
			v.Outbound = v.Outbound.In(m)
			r := Build(m, v)
			for _, fault := range faultsOf(r) {
				t.Error(fault)
			}
			var listeners, ranges []string
			for _, l := range r.Listeners {
				if l.Address.GetSocketAddress().GetPortValue() == 9000 {
					listeners = append(listeners, l.Name)
					for _, c := range l.FilterChains {
						for _, in := range c.FilterChainMatch.PrefixRanges {
							ranges = append(ranges, in.AddressPrefix)
						}
					}
				}
			}
			if want := []string{"0.0.0.0_9000", net + ".0.2_9000"}; !slices.Equal(listeners, want) {
				t.Errorf("listeners are %v, want %v", listeners, want)
			}
			if want := []string{net + ".1.0"}; !slices.Equal(ranges, want) {
				t.Errorf("ranges are %v, want %v", ranges, want)
			}
			hosts := served(t, r.Routes, "80").VirtualHosts
			if got := hosts[0].Domains; !slices.Contains(got, net+".0.1") || slices.ContainsFunc(got, func(d string) bool {
				return d[:3] == "10." && d != net+".0.1"
			}) {
				t.Errorf("domains are %v, want %s.0.1 and no other address", got, net)
			}
			out := BuildOutbound(m, v.Outbound)
			if got := fmt.Sprint(out.Names(v.Outbound)[0].Addresses, out.Names(v.Outbound)[1].Addresses); got != fmt.Sprintf("[%s.0.2] [%s.0.1]", net, net) {
				t.Errorf("DNS answers %s", got)
			}
		})
	}
	if a, b := view("north").Outbound.In(m), view("").Outbound.In(m); a != b {
		t.Error("proxies of two clusters that give no address of their own do not share a view")
	}
	if a, b := view("east").Outbound.In(m), view("north").Outbound.In(m); a != b {
		t.Error("a proxy of the owner's cluster does not share the view of those that use the owner's address")
	}
	if a, b := view("west").Outbound.In(m), view("east").Outbound.In(m); a == b {
		t.Error("proxies of two clusters with addresses of their own share a view")
	}
	if a, b := view("west").Outbound.ofClusters(), view("east").Outbound.ofClusters(); a != b {
		t.Error("clusters and endpoints of proxies of two clusters are not shared")
	}
	alone := mesh(in("east", web, "10.96.0.1", "10.1.0.1", httpPort(80)))
	if a, b := view("west").Outbound.In(alone), view("east").Outbound.In(alone); a != b {
		t.Error("proxies of two clusters do not share a view where only one has services")
	}
}
