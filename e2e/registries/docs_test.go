//go:build registries

package registries

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// docs/consul.md is followed with a Consul that it starts itself.
func TestPageOfConsul(t *testing.T) {
	consul := needs(t, "consul")
	lab.InNetworkNamespace(t, func(t *testing.T) {
		lab.Follow(t, "docs/consul.md", "PATH="+strings.Join([]string{filepath.Dir(consul), lab.Programs(), os.Getenv("PATH")}, ":"))
	})
}

// docs/nomad.md is followed with a Consul and a Nomad that it starts itself. Nomad sees no control groups here, so that it leaves none.
func TestPageOfNomad(t *testing.T) {
	consul, nomad := needs(t, "consul"), needs(t, "nomad")
	lab.InPodNetwork(t, func(t *testing.T) {
		if err := unix.Unmount("/sys/fs/cgroup", unix.MNT_DETACH); err != nil {
			t.Fatalf("hide control groups, as root: %v", err)
		}
		path := strings.Join([]string{filepath.Dir(consul), filepath.Dir(nomad), lab.Programs(), os.Getenv("PATH")}, ":")
		lab.Follow(t, "docs/nomad.md", "PATH="+path, "TMPDIR="+lab.ShortDir(t))
	})
}

// docs/eureka.md is followed with a Eureka that the reader has.
func TestPageOfEureka(t *testing.T) {
	lab.InNetworkNamespace(t, func(t *testing.T) {
		lab.Follow(t, "docs/eureka.md", "EUREKA="+newWorld(t).eureka().url)
	})
}
