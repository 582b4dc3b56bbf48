//go:build registries

package registries

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// docs/consul.md is followed with a Consul that it starts itself.
func TestPageOfConsul(t *testing.T) {
	consul := needs(t, "consul")
	lab.InNetworkNamespace(t, func(t *testing.T) {
		lab.Follow(t, "docs/consul.md", "PATH="+strings.Join([]string{filepath.Dir(consul), lab.Programs(), os.Getenv("PATH")}, ":"))
	})
}

// docs/eureka.md is followed with a Eureka that the reader has.
func TestPageOfEureka(t *testing.T) {
	lab.InNetworkNamespace(t, func(t *testing.T) {
		lab.Follow(t, "docs/eureka.md", "EUREKA="+newWorld(t).eureka().url)
	})
}
