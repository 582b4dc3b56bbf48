package hotrestart

import (
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// relatives are real Envoys of one family, which serve one port.
type relatives struct {
	t      *testing.T
	binary string
	Sockets
	abstract bool   // sockets without a path
	host     string // drawn: with reuse_port two test runs would share an address in silence
	port     int
}

func newRelatives(t *testing.T) *relatives {
	t.Helper()
	port, err := lab.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	host := fmt.Sprintf("127.31.%d.%d", rand.N(256), 1+rand.N(254))
	dir, err := os.MkdirTemp("", "pilotlight-") // see newProxy
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	family := newBaseID(t)
	return &relatives{
		t: t, binary: envoyBinary(t), Sockets: Sockets{Dir: dir, Token: newToken(), BaseID: family}, host: host, port: port,
	}
}

func (r *relatives) listener() string { return net.JoinHostPort(r.host, strconv.Itoa(r.port)) }

const (
	// %d is the epoch in the admin's path; the body of an answer identifies the epoch.
	bootstrapStart = `{"node": {"id": "n", "cluster": "c"}, "stats_flush_interval": "0.2s",
		"admin": {"address": {"pipe": {"path": %q, "mode": 384}}},`
	// endless waits for clusters that no server sends: the newcomer has attached, and never serves.
	endless = `"dynamic_resources": {"ads_config": {"api_type": "GRPC", "transport_api_version": "V3",
			"grpc_services": [{"envoy_grpc": {"cluster_name": "xds"}}]},
			"cds_config": {"ads": {}, "resource_api_version": "V3", "initial_fetch_timeout": "0s"}},
		"static_resources": {"clusters": [{"name": "xds"}]}}`
	serving = `"static_resources": {"listeners": [{"name": "l",
		"address": {"socket_address": {"address": %q, "port_value": %d}},
		"filter_chains": [{"filters": [{"name": "http", "typed_config": {
			"@type": "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
			"stat_prefix": "http",
			"route_config": {"virtual_hosts": [{"name": "all", "domains": ["*"], "routes": [
				{"match": {"prefix": "/"}, "direct_response": {"status": 200, "body": {"inline_string": "%d"}}}]}]},
			"http_filters": [{"name": "router", "typed_config": {
				"@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"}}]}}]}]}]}}`
)

func (r *relatives) admin(epoch int) string {
	return filepath.Join(r.Dir, fmt.Sprintf("admin-%d.sock", epoch))
}

// start starts an epoch that will serve.
func (r *relatives) start(epoch int, args ...string) *lab.Process {
	r.t.Helper()
	return r.run(epoch, fmt.Sprintf(serving, r.host, r.port, epoch), args...)
}

// startEndless starts an epoch that attaches to the family, and never serves.
func (r *relatives) startEndless(epoch int) *lab.Process {
	r.t.Helper()
	p := r.run(epoch, endless)
	await(r.t, "the newcomer has attached", func() bool {
		initializing, err := r.BaseID.Initializing()
		return err == nil && initializing
	})
	return p
}

func (r *relatives) run(epoch int, bootstrap string, args ...string) *lab.Process {
	r.t.Helper()
	path := filepath.Join(r.Dir, fmt.Sprintf("%d.json", epoch))
	bootstrap = fmt.Sprintf(bootstrapStart, r.admin(epoch)) + bootstrap
	if err := os.WriteFile(path, []byte(bootstrap), 0o600); err != nil {
		r.t.Fatal(err)
	}
	if !r.abstract {
		args = append(args, "--socket-path", r.Prefix(), "--socket-mode", "600")
	}
	p, err := lab.Start(lab.Spec{
		Name: fmt.Sprintf("envoy-%d", epoch),
		Dir:  r.Dir,
		Argv: append([]string{
			r.binary, "--config-path", path, "--base-id", r.BaseID.String(), "--restart-epoch", strconv.Itoa(epoch),
			"--concurrency", "1", "--log-level", "warning", "--drain-strategy", "immediate", "--drain-time-s", "1",
		}, args...),
	})
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() {
		p.Signal(syscall.SIGKILL)
		<-p.Done()
		if r.t.Failed() {
			r.t.Logf("%s:\n%s", p.Name, p.Log())
		}
	})
	return p
}

// oneSecond after it serves the child ends its parent.
var oneSecond = []string{"--skip-hot-restart-parent-stats", "--parent-shutdown-time-s", "1"}

func (r *relatives) awaitLive(epoch int) {
	r.t.Helper()
	await(r.t, fmt.Sprintf("epoch %d is live", epoch), func() bool {
		answer, err := lab.OverUnix(r.admin(epoch)).Get("http://envoy/ready")
		if err != nil {
			return false
		}
		answer.Body.Close()
		return answer.StatusCode == http.StatusOK
	})
}

func (r *relatives) awaitAdminGone(epoch int) {
	r.t.Helper()
	await(r.t, fmt.Sprintf("the admin of epoch %d is gone", epoch), func() bool {
		conn, err := net.Dial("unix", r.admin(epoch))
		if err == nil {
			conn.Close()
		}
		return err != nil
	})
}

// serves fails the test unless a fresh request is answered by the epoch.
func (r *relatives) serves(epoch int) {
	r.t.Helper()
	body, err := lab.Get("http://" + r.listener())
	if err != nil || body != strconv.Itoa(epoch) {
		r.t.Errorf("a request is answered by epoch %q, %v; want %d", body, err, epoch)
	}
}

func (r *relatives) ends(p *lab.Process, want int) {
	r.t.Helper()
	if code, err := p.Wait(patient); err != nil || code != want {
		r.t.Errorf("%s: exit status %d, %v; want %d", p.Name, code, err, want)
	}
}
