//go:build kube

package kube

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

const stopLimit = 30 * time.Second

func TestMain(m *testing.M) {
	lab.Main(m, lab.Suite{Name: "e2e/kube", Programs: []string{"./e2e/adsbench", "./examples/bookinfo"}, Need: need})
}

// part is the path of a program that envoy-tools/fetch-kube builds or downloads.
func part(name string) string { return lab.KubePart(name) }

func need() error {
	for _, name := range []string{"etcd", "kube-apiserver", "kubectl"} {
		if _, err := os.Stat(part(name)); err != nil {
			return fmt.Errorf("%w: run make e2e-kube, which builds it", err)
		}
	}
	return nil
}
