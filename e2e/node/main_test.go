//go:build node

package node

import (
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

const stopLimit = 30 * time.Second

func TestMain(m *testing.M) {
	lab.Main(m, lab.Suite{Name: "e2e/node", Root: true, Need: need})
}

// part is the path of a program that envoy-tools/fetch-node builds or downloads.
func part(name string) string { return lab.Path("bin", "kube", name) }

func need() error {
	for _, name := range []string{
		"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy", "kubelet", "kubectl",
		"containerd", "containerd-shim-runc-v2", "ctr",
	} {
		if _, err := os.Stat(part(name)); err != nil {
			return fmt.Errorf("%w: run make e2e-node, which builds it", err)
		}
	}
	for _, name := range []string{"runc", "dnsmasq", "buildah", "nft", "ip"} {
		if _, err := exec.LookPath(name); err != nil {
			return fmt.Errorf("%w: run make e2e-node, which installs it", err)
		}
	}
	for _, name := range []string{"proxy", "discovery"} {
		if _, err := os.Stat(archive(name)); err != nil {
			return fmt.Errorf("%w: run make e2e-node, which builds it", err)
		}
	}
	return nil
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
