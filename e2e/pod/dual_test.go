//go:build pod

package pod

import (
	"fmt"
	"net"
	"testing"
)

// A pod with addresses of both families: what it calls, and what calls it, goes through the proxy in either.
func TestTwoPodsOfBothFamilies(t *testing.T) {
	const six = "fd00:77::"
	for _, mode := range []string{"REDIRECT", "TPROXY"} {
		t.Run(mode, func(t *testing.T) {
			m := newMesh(t, false, mode, fmt.Sprintf(`apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: six}
spec:
  hosts: [six.default.svc.cluster.local]
  addresses: ["fd00:96::12"]
  location: MESH_INTERNAL
  resolution: STATIC
  ports: [{number: 80, name: http, protocol: HTTP, targetPort: 8080}, {number: 9000, name: tcp, protocol: TCP}]
  endpoints: [{address: "%s12"}]
`, six))
			m.fabric.Address("br0", six+"1/64")
			a, b, c := m.pods["a"], m.pods["b"], m.pods["c"]
			for name, pod := range m.pods {
				pod.Address("eth0", six+last[name]+"/64")
				pod.Must("ip", "route", "add", "default", "via", six+"1")
			}
			a.inject()
			b.inject()

			const inbound, sixth = `^cluster\.inbound\|8080\|\|\.upstream_rq_200$`, `^cluster\.outbound\|80\|\|six\.default\.svc\.cluster\.local\.upstream_rq_200$`
			m.answers(a, "b", "b")
			m.counts(b, inbound, 1, 1)

			// By a virtual IP of the other family, HTTP and bytes.
			m.answers(a, "[fd00:96::12]", "b")
			m.counts(a, sixth, 1, 1)
			m.counts(b, inbound, 2, 2)
			m.tells(a, "[fd00:96::12]:9000", "b")
			m.counts(b, `^cluster\.inbound\|9000\|\|\.upstream_cx_total$`, 1, 1)

			// By the pod's own address, from one with a proxy and from one without.
			m.answers(a, net.JoinHostPort(six+"12", "8080"), "b")
			m.counts(a, `^cluster\.PassthroughCluster\.upstream_cx_total$`, 1, 1)
			m.answers(c, net.JoinHostPort(six+"12", "8080"), "b")
			m.counts(b, inbound, 4, 4)

			// To a port that nobody declares.
			b.serve("7778")
			m.answers(c, net.JoinHostPort(six+"12", "7778"), "b")
			m.answers(c, net.JoinHostPort(b.ip, "7778"), "b")
			m.counts(b, `^cluster\.InboundPassthroughCluster\.upstream_rq_200$`, 2, 2)
			m.counts(a, `update_rejected$`, 0, 0)
			m.counts(b, `update_rejected$`, 0, 0)
		})
	}
}
