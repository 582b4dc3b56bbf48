//go:build pod

package pod

import (
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// A pod that says that it is intercepted, and has no redirection, is named by its agent and by discovery as soon as somebody reaches its program,
// until the redirection is there. One with a redirection is not, nor is one for the ports that it leaves out.
func TestPodsWithoutRedirection(t *testing.T) {
	for _, mode := range []string{"REDIRECT", "TPROXY"} {
		t.Run(mode, func(t *testing.T) {
			m := newMesh(t, false, mode, "")
			a, b, c := m.pods["a"], m.pods["b"], m.pods["c"]
			b.environment = append(b.environment, `ISTIO_METAJSON_ANNOTATIONS={"traffic.sidecar.istio.io/excludeInboundPorts":"9000"}`)
			a.inject("-d", "9000") // which it does not say
			b.run()
			for _, w := range []*workload{a, b} { // each of them stays
				for _, port := range []string{"7022", "8080", "9000"} {
					if port == "7022" {
						w.serve(port)
					}
					c.stay(net.JoinHostPort(w.ip, port))
				}
			}
			m.answers(c, net.JoinHostPort(a.ip, "8080"), "a")
			m.notes("its traffic is said to be intercepted, and "+c.ip+" reaches port 8080 of its program directly", true)
			b.says("/stats/prometheus", "pilotlight_agent_inbound_bypassed 1", true)
			b.says("/status", `"client": "`+c.ip+`"`, true)
			b.says("/status", `"port": 8080`, true)
			b.says("/why", "what came past Envoy: traffic is not redirected", true)
			if log := b.agent.Log(); strings.Count(log, "traffic comes past Envoy") != 1 {
				t.Errorf("the log does not say it once:\n%s", log)
			}
			m.notes(`"a"`, false)
			a.says("/stats/prometheus", "pilotlight_agent_inbound_bypassed 0", true)

			output, err := podInit(b.Netns, "-m", mode, "-d", "9000")
			if err != nil {
				t.Fatalf("pod-init: %v:\n%s", err, output)
			}
			m.answers(c, net.JoinHostPort(b.ip, "8080"), "b")
			m.notes("no-redirect", false)
			b.says("/status", `"bypassed"`, false)
			b.says("/stats/prometheus", "pilotlight_agent_inbound_bypassed 0", true)
			if log := b.agent.Log(); strings.Count(log, "traffic comes through Envoy again") != 1 {
				t.Errorf("the log does not say once that it has ended:\n%s", log)
			}
			if log := a.agent.Log(); strings.Contains(log, "past Envoy") {
				t.Errorf("a pod with a redirection:\n%s", log)
			}
		})
	}
}

// stay connects to an address, and stays connected.
func (w *workload) stay(address string) {
	t := w.mesh.t
	t.Helper()
	conn, err := w.Dial(app, "tcp", address, stopLimit)
	check(t, err)
	t.Cleanup(func() { conn.Close() })
}

// says waits until the agent says a text at a path of its status port, or says it no more.
func (w *workload) says(path, text string, want bool) {
	w.mesh.t.Helper()
	says(w.mesh.t, w.Netns, "http://127.0.0.1:15020"+path, text, want)
}

// notes waits until discovery has a note with a text, or has it no more.
func (m *mesh) notes(text string, want bool) {
	m.t.Helper()
	says(m.t, m.home, "http://127.0.0.1:8080/debug/notes", text, want)
}

func says(t *testing.T, from *lab.Netns, url, text string, want bool) {
	t.Helper()
	check(t, lab.Eventually(3*stopLimit, func() error {
		body, err := from.Get(url)
		if err == nil && strings.Contains(body, text) != want {
			err = fmt.Errorf("%s: %q is there: %t, want %t:\n%s", url, text, !want, want, body)
		}
		return err
	}))
}
