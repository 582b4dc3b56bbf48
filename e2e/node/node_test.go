//go:build node

package node

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// directory names the directory of a node, which is made outside of its namespaces: what it has mounted there is gone when it
// is removed.
const directory = "PILOTLIGHT_NODE"

// node is a cluster of one node.
type node struct {
	t   *testing.T
	dir string
	dns *lab.Process
}

const (
	address         = "10.200.0.1" // of the node
	apiServer       = "https://127.0.0.1:6443"
	namedNamespaces = "/run/netns" // where network plugins name the Pods' namespaces
)

// onANode runs a test on a node that is ready.
func onANode(t *testing.T, test func(n *node)) {
	if os.Getenv(directory) == "" {
		t.Setenv(directory, t.TempDir())
		t.Cleanup(func() { removeGroups(t) })
	}
	lab.InNodeNamespaces(t, func(t *testing.T) {
		n := &node{t: t, dir: os.Getenv(directory)}
		t.Cleanup(func() {
			if t.Failed() {
				n.explain()
			}
		})
		check(t, os.MkdirAll(namedNamespaces, 0o755))
		lab.MountTmpfs(t, namedNamespaces, "mode=755", 0) // else the names of its Pods' namespaces stay on the host
		n.network()
		n.controlPlane()
		n.runtime()
		n.kubelet()
		test(n)
	})
}

func (n *node) in(name ...string) string { return filepath.Join(append([]string{n.dir}, name...)...) }

func (n *node) write(name, text string) string {
	n.t.Helper()
	path := n.in(name)
	check(n.t, os.MkdirAll(filepath.Dir(path), 0o755))
	check(n.t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// start starts a part until the test ends.
func (n *node) start(name, program string, args ...string) *lab.Process {
	n.t.Helper()
	p, err := lab.Start(lab.Spec{
		Name: name, Dir: n.in("log"), Work: n.dir, Argv: append([]string{program}, args...),
		Env: []string{"PATH=" + lab.Path("bin", "kube") + ":" + os.Getenv("PATH")}, // containerd looks for its shim
	})
	check(n.t, err)
	n.t.Cleanup(func() { p.Stop(stopLimit) })
	return p
}

// run runs a command, and returns what it prints.
func (n *node) run(name string, args ...string) (string, error) {
	command := exec.CommandContext(n.t.Context(), name, args...)
	command.Dir = lab.Path()
	command.Env = append(os.Environ(), "KUBECONFIG="+n.in("admin.kubeconfig"), "KUBECACHEDIR="+n.in("kubectl"), "CGO_ENABLED=0") // programs for images without a libc
	var stderr bytes.Buffer
	command.Stderr = &stderr
	out, err := command.Output()
	if err != nil {
		err = fmt.Errorf("%s %s: %w\n%s%s", filepath.Base(name), strings.Join(args, " "), err, out, &stderr)
	}
	return string(out), err
}

func (n *node) must(name string, args ...string) string {
	n.t.Helper()
	out, err := n.run(name, args...)
	check(n.t, err)
	return out
}

// kubectl runs kubectl as an administrator does.
func (n *node) kubectl(args ...string) string {
	n.t.Helper()
	return n.must(part("kubectl"), args...)
}

// network gives the node an address, and lets it forward its Pods' packets.
func (n *node) network() {
	n.t.Helper()
	n.must("ip", "link", "add", "node0", "type", "veth", "peer", "name", "node0p")
	n.must("ip", "link", "set", "node0p", "up")
	n.must("ip", "address", "add", address+"/24", "dev", "node0")
	n.must("ip", "link", "set", "node0", "up")
	n.must("ip", "route", "add", "default", "via", "10.200.0.254")
	lab.WriteSysctl(n.t, "net/ipv4/ip_forward", "1")
	n.write("hosts", "")
	n.dns = n.start("dnsmasq", "dnsmasq", "-k", "--no-resolv", "--no-hosts", "--addn-hosts="+n.in("hosts"), "--listen-address="+address,
		"--bind-interfaces", "--local=/cluster.local/", "--user=root", "--pid-file=")
}

// names makes the cluster's DNS answer for the present Services.
func (n *node) names() {
	n.t.Helper()
	const each = `{range .items[?(@.spec.clusterIP!="None")]}{.spec.clusterIP} {.metadata.name}.{.metadata.namespace}.svc.cluster.local{"\n"}{end}`
	n.write("hosts", n.kubectl("get", "services", "-A", "-o", "jsonpath="+each))
	n.dns.Signal(reread)
}

// explain logs what an operator would look at.
func (n *node) explain() {
	for _, args := range [][]string{{"get", "pods", "-A", "-o", "wide"}, {"get", "events", "-A", "--sort-by=.lastTimestamp"}} {
		out, err := n.run(part("kubectl"), args...)
		n.t.Logf("kubectl %v: %v\n%s", args, err, tail(out))
	}
	logs, _ := filepath.Glob(n.in("log", "*.log"))
	containers, _ := filepath.Glob(n.in("pods", "*", "*", "*.log"))
	for _, path := range append(logs, containers...) {
		text, err := os.ReadFile(path)
		n.t.Logf("%s: %v\n%s", strings.TrimPrefix(path, n.dir), err, tail(string(text)))
	}
}

// tail keeps the end of a text.
func tail(text string) string {
	const most = 3_000
	return text[max(0, len(text)-most):]
}

// eventually repeats a check until it returns no error.
func (n *node) eventually(limit time.Duration, check func() error) {
	n.t.Helper()
	if err := lab.Eventually(limit, check); err != nil {
		n.t.Fatal(err)
	}
}
