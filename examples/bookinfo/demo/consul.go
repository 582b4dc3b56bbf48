package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// consul is the registry of that name, and the folder of its program in that of the binaries.
const (
	consul       = "consul"
	consulDomain = "service.consul"
	consulPort   = 8500 // of its API
	raftPort     = 8300
	serfPort     = 8301
)

// consulServer is Consul's server in memory, which registers the services that its configuration has. Its leader is ready when lists are.
func (o options) consulServer(config string) spec {
	return spec{
		name: consul, argv: []string{o.consulProgram(), "agent", "-dev", "-config-file=" + config}, ready: local(consulPort+o.offset, "/v1/catalog/services"),
	}
}

func (o options) consulProgram() string { return filepath.Join(o.bin, "registries", consul) }

// consulThere returns an error that says what to run where there is no Consul.
func (o options) consulThere() error {
	_, err := os.Stat(o.consulProgram())
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: envoy-tools/fetch-registries consul builds it, which takes minutes", err)
	}
	return err
}

// consulService is a service as Consul's configuration writes it.
type consulService struct {
	ID      string            `json:"id"`
	Name    string            `json:"name"`
	Address string            `json:"address"`
	Port    int               `json:"port"`
	Meta    map[string]string `json:"meta"`
	Check   consulCheck       `json:"check"`
}

type consulCheck struct {
	HTTP     string `json:"http"`
	Interval string `json:"interval"`
}

// consulConfig returns Consul's configuration. Each workload is an instance at its sidecar's address, and is as well as its program.
func (o options) consulConfig() []byte {
	var services []consulService
	for i, w := range workloads {
		services = append(services, consulService{
			ID: w.name(), Name: w.app, Address: o.ip(i), Port: servicePort, Meta: map[string]string{"version": w.version, "protocol": "http"},
			Check: consulCheck{HTTP: "http://" + o.programAddress(i) + "/health", Interval: "1s"},
		})
	}
	text, err := json.MarshalIndent(map[string]any{
		"node_name": "demo", "bind_addr": "127.0.0.1", "client_addr": "127.0.0.1", "disable_update_check": true, "log_level": "warn",
		"connect": map[string]bool{"enabled": false}, "services": services,
		"ports": map[string]int{
			"http": consulPort + o.offset, "server": raftPort + o.offset, "serf_lan": serfPort + o.offset,
			"serf_wan": -1, "dns": -1, "grpc": -1, "grpc_tls": -1,
		},
	}, "", "  ")
	if err != nil {
		panic(err) // it is made of texts and numbers
	}
	return append(text, '\n')
}
