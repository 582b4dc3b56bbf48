//go:build registries

package registries

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// consul is an agent of Consul: a server, or a client of one.
type consul struct {
	*part
	url  string
	serf string // host:port where others join it
}

// consul starts an agent. Further settings win over these.
func (w *world) consul(name string, further map[string]any) *consul {
	w.t.Helper()
	http, serf := w.port(), w.port()
	settings := map[string]any{
		"node_name": name, "data_dir": filepath.Join(w.Dir, name), "bind_addr": "127.0.0.1", "client_addr": "127.0.0.1",
		"disable_update_check": true, "connect": map[string]any{"enabled": false}, "log_level": "warn",
		"performance": map[string]any{"raft_multiplier": 1},
		"ports": map[string]any{
			"http": http, "server": w.port(), "serf_lan": serf, "serf_wan": -1, "dns": -1, "grpc": -1, "grpc_tls": -1,
		},
	}
	for key, value := range further {
		settings[key] = value
	}
	text, err := json.Marshal(settings)
	w.check(err)
	file := filepath.Join(w.Dir, name+".json")
	w.check(os.WriteFile(file, text, 0o644))
	c := &consul{url: "http://" + local(http), serf: local(serf)}
	c.part = w.part(lab.Spec{Name: name, Argv: []string{needs(w.t, "consul"), "-config-file=" + file}}, func() error {
		leader, err := lab.Get(c.url + "/v1/status/leader")
		if err == nil && leader == `""` {
			err = fmt.Errorf("%s has no leader", name)
		}
		return err
	})
	return c
}

func (w *world) consulServer() *consul {
	w.t.Helper()
	return w.consul("server", map[string]any{"server": true, "bootstrap_expect": 1})
}

// A Consul that is killed comes back with what it knew.
func TestConsulComesBack(t *testing.T) {
	w := newWorld(t)
	c := w.consulServer()
	for range 2 {
		w.check(lab.Eventually(stopLimit, func() error {
			services, err := lab.Get(c.url + "/v1/catalog/services")
			if err == nil && services != `{"consul":[]}` {
				err = fmt.Errorf("its services are %s", services)
			}
			return err
		}))
		c.kill()
		c.restart()
	}
}
