//go:build kube

package kube

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

const (
	outage = time.Minute // how long something is away
	others = 1000        // services to which next to nothing happens
)

// scene is the services that change: each has backends, and slices of one Pod each.
type scene struct {
	hand
	at map[string]string // host:port of each backend
}

// pod starts the backend of a service and a version, and writes its Pod.
func (s scene) pod(service, version, ip string) {
	s.t.Helper()
	s.at[service+"-"+version] = fmt.Sprintf("%s:%d", ip, backend(s.t, version, ip))
	s.hand.apply(fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: %s-%s, namespace: default, labels: {app: %[1]s, version: %[2]s}}
spec: {nodeName: n1, containers: [{name: app, image: none}]}
status: {phase: Running, podIP: %[3]s, podIPs: [{ip: %[3]s}], conditions: [{type: Ready, status: "True"}]}`, service, version, ip))
}

// slice is the EndpointSlice of a backend.
func (s scene) slice(service, version string) string {
	s.t.Helper()
	ip, port, _ := strings.Cut(s.at[service+"-"+version], ":")
	return fmt.Sprintf(`
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: %[1]s-%[2]s, namespace: default, labels: {kubernetes.io/service-name: %[1]s}}
addressType: IPv4
ports: [{name: http, port: %[4]s, protocol: TCP}]
endpoints: [{addresses: [%[3]s], conditions: {ready: true}, nodeName: n1, targetRef: {kind: Pod, namespace: default, name: %[1]s-%[2]s}}]`,
		service, version, ip, port)
}

func (s scene) service(name string) string {
	return "apiVersion: v1\nkind: Service\nmetadata: {name: " + name + ", namespace: default}\nspec: {selector: {app: " + name + "}, ports: [{name: http, port: 80}]}"
}

// route sends all requests for split to a version.
func (s scene) route(version string) string {
	return fmt.Sprintf(`
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: split, namespace: default}
spec: {hosts: [split], http: [{route: [{destination: {host: split, subset: %s}}]}]}`, version)
}

const subsets = `
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: split, namespace: default}
spec: {host: split, subsets: [{name: v1, labels: {version: v1}}, {name: v2, labels: {version: v2}}, {name: v3, labels: {version: v3}}]}`

// setScene writes what is there before an outage.
func setScene(t *testing.T, c *cluster) scene {
	t.Helper()
	s := scene{c.hand(), map[string]string{}}
	s.apply(istioDefinitions(t))
	s.fill("other", others, 1, false)
	for i, service := range []string{"echo", "split", "gone", "late"} {
		for j := range 4 {
			s.pod(service, fmt.Sprintf("v%d", j+1), fmt.Sprintf("10.1.%d.%d", i+1, j+1))
		}
	}
	for _, service := range []string{"echo", "split", "gone"} {
		s.apply(s.service(service))
	}
	s.apply(subsets + "\n---\n" + s.route("v1"))
	for _, slice := range [][2]string{{"echo", "v1"}, {"echo", "v2"}, {"split", "v1"}, {"split", "v2"}, {"split", "v3"}, {"gone", "v1"}} {
		s.apply(s.slice(slice[0], slice[1]))
	}
	return s
}

// change is what happens while something is away, and changeAgain what happens to the same objects when it is back. They
// return how many objects they changed.
func (s scene) change() int {
	s.apply(s.slice("echo", "v3") + "\n---\n" + s.route("v2") + "\n---\n" + s.service("late") + "\n---\n" + s.slice("late", "v1"))
	s.delete(s.slice("echo", "v2") + "\n---\n" + s.service("gone") + "\n---\n" + s.slice("gone", "v1"))
	documents := made("other", 7, 1, 1, false)
	for _, document := range documents {
		s.apply(document)
	}
	return 7 + len(documents)
}

func (s scene) changeAgain() int {
	s.apply(s.slice("echo", "v4") + "\n---\n" + s.route("v3") + "\n---\n" + s.slice("late", "v2"))
	s.delete(s.slice("echo", "v3") + "\n---\n" + s.slice("late", "v1"))
	return 5
}

// arrived waits until the proxy of a station has the end of all changes: no endpoint is lost, and none is stale.
func (s scene) arrived(at *station) error {
	for prefix, want := range map[string][]string{
		"echo.": {s.at["echo-v1"], s.at["echo-v4"]}, "late.": {s.at["late-v2"]}, "gone.": nil, "service-7.": {"10.129.0.8:8080"},
	} {
		if err := at.has(prefix, want...); err != nil {
			return err
		}
	}
	for service, want := range map[string][]string{"echo": {"v1", "v4"}, "split": {"v3"}, "late": {"v2"}} {
		if err := answered(at.proxy, service, want...); err != nil {
			return fmt.Errorf("%s: %w", at.name, err)
		}
	}
	if all, err := at.endpoints("service-"); err != nil || len(all) != others {
		return fmt.Errorf("%s: Envoy has %d endpoints of the other services, and %w, want %d", at.name, len(all), err, others)
	}
	return nil
}

// While an API server is away for a minute, proxies send requests and objects change. Nothing is pushed, no request fails,
// and discovery is ready and names what is wrong, once in its log. When the server is back, the same objects change again:
// no endpoint is lost, none that is gone stays, and no more is pushed than has changed.
func TestOutage(t *testing.T) {
	t.Parallel() // it waits
	lab.InNetworkNamespace(t, apiServersAway)
}

func apiServersAway(t *testing.T) {
	leadPodsToLoopback(t)
	c := startCluster(t)
	dead, frozen := c.beside(), c.beside()
	s := setScene(t, c)
	throttling, refusing := startDoor(t, c, c.config("admin")), startDoor(t, c, c.config("admin"))
	s.outlast(t, true,
		startStation(t, "a server that is killed", dead.kubeconfigOf("admin", "test"), "10.1.0.1", kill(dead.server), dead.start),
		startStation(t, "a server that is frozen", frozen.kubeconfigOf("admin", "test"), "10.1.0.2",
			func() { frozen.server.Signal(syscall.SIGSTOP) }, func() { frozen.server.Signal(syscall.SIGCONT) }),
		startStation(t, "a server that throttles", throttling.kubeconfig(), "10.1.0.3",
			func() { throttling.refuseAll(http.StatusTooManyRequests) }, func() { throttling.refuseAll(0) }),
		startStation(t, "a server that refuses", refusing.kubeconfig(), "10.1.0.4",
			func() { refusing.refuseAll(http.StatusServiceUnavailable) }, func() { refusing.refuseAll(0) }),
	)
}

// kill ends a process as a lack of memory does.
func kill(p *lab.Process) func() {
	return func() {
		p.Signal(syscall.SIGKILL)
		<-p.Done()
	}
}

// etcd is away for a minute. The API server lives and keeps its watches open, or answers with errors, or not at all: nothing
// can change, and discovery need not notice.
func TestStorageOutage(t *testing.T) {
	t.Parallel() // it waits
	lab.InNetworkNamespace(t, storageAway)
}

func storageAway(t *testing.T) {
	leadPodsToLoopback(t)
	for i, name := range []string{"etcd is killed", "etcd is frozen"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := startCluster(t)
			s := setScene(t, c)
			cut, mend := kill(c.etcd), c.startStore
			if name == "etcd is frozen" {
				cut, mend = func() { c.etcd.Signal(syscall.SIGSTOP) }, func() { c.etcd.Signal(syscall.SIGCONT) }
			}
			s.outlast(t, false, startStation(t, name, c.kubeconfigOf("admin", "test"), fmt.Sprintf("10.1.0.%d", i+1), cut, mend))
		})
	}
}

// outlast takes away what stations follow for a minute. Objects change meanwhile, unless their storage is away too.
func (s scene) outlast(t *testing.T, meanwhile bool, stations ...*station) {
	each := func(do func(*station) error) {
		t.Helper()
		var g errgroup.Group
		for _, at := range stations {
			g.Go(func() error { return do(at) })
		}
		check(t, g.Wait())
	}
	each(func(at *station) (err error) {
		if err := answered(at.proxy, "echo", "v1", "v2"); err != nil {
			return err
		}
		at.send("echo", "split")
		at.full, err = at.settled()
		at.warned = len(at.warnings())
		return err
	})
	stop := make(chan struct{})
	var observers sync.WaitGroup
	for _, at := range stations {
		observers.Go(func() { at.observe(stop) })
	}

	began, changes := time.Now(), 0
	for _, at := range stations {
		at.cut()
	}
	if meanwhile {
		changes = s.change()
		each(func(at *station) error { return at.says("source Kubernetes: it failed at", true) })
		t.Logf("the last one noticed after %s", time.Since(began).Round(time.Second))
	}
	<-time.After(outage - time.Since(began))
	each(func(at *station) error {
		now, err := at.counts()
		if pushed := now.since(at.full); err == nil && (pushed.generation != 0 || total(pushed.responses) != 0) {
			err = fmt.Errorf("%s: while it was away %+v was pushed", at.name, pushed)
		}
		return err
	})

	for _, at := range stations {
		at.mend()
	}
	back := time.Now()
	if !meanwhile {
		changes = s.change()
	}
	changes += s.changeAgain()
	each(func(at *station) error {
		err := s.arrived(at)
		at.took = time.Since(back)
		return err
	})
	for _, at := range stations {
		t.Logf("%s: all has arrived after %s", at.name, at.took.Round(100*time.Millisecond))
		check(t, at.says("it failed at", false))
		now, err := at.settled()
		check(t, err)
		now.since(at.full).bounded(t, at, changes)
		if told := at.warnings()[at.warned:]; len(told) > 2 {
			t.Errorf("%s: the log has %d lines, want one for each source:\n%s", at.name, len(told), strings.Join(told, "\n"))
		}
	}
	close(stop)
	observers.Wait()
	for _, at := range stations {
		for _, err := range at.unready[:min(3, len(at.unready))] {
			t.Errorf("%s: discovery was not ready %d times: %v", at.name, len(at.unready), err)
		}
		for _, load := range at.loads {
			lab.Unharmed(t, load)
		}
	}
}

// bounded shows that no more was pushed than changed: each mesh to each proxy once, twice where it asks for the endpoints of a
// new cluster, and of clusters, endpoints and listeners next to nothing. A route configuration is sent whole.
func (c counts) bounded(t *testing.T, at *station, changes int) {
	t.Helper()
	t.Logf("%s: %d changes are %d meshes, in %v responses and %v bytes; all before was %v and %v", at.name, changes, c.generation,
		c.responses, c.bytes, at.full.responses, at.full.bytes)
	if c.generation > changes {
		t.Errorf("%s: %d meshes of %d changes", at.name, c.generation, changes)
	}
	for kind, n := range c.responses {
		if n > 2*c.generation*(crowd+1) {
			t.Errorf("%s: %d responses of %s, for %d proxies and %d meshes", at.name, n, kind, crowd+1, c.generation)
		}
	}
	for kind, n := range c.bytes {
		most := at.full.bytes[kind] / 20
		if kind == "rds" {
			most = at.full.bytes[kind] * c.generation * 11 / 10
		}
		if n > most {
			t.Errorf("%s: %d bytes of %s, want %d or less", at.name, n, kind, most)
		}
	}
}
