//go:build kube

package kube

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// fleet is e2e/adsbench's simulated Envoys, in a process of their own.
type fleet struct {
	t   testing.TB
	in  io.Writer
	out *bufio.Scanner
}

// told is what the fleet got since it was told to forget: bytes of responses, and of one kind how many proxies have some, and
// when the last did, in nanoseconds.
type told struct{ Proxies, Responses, Bytes, Last int64 }

// startFleet connects proxies to target, which share a view.
func startFleet(t testing.TB, bin, target string, proxies int, delta bool) *fleet {
	t.Helper()
	cmd := exec.Command(filepath.Join(bin, "adsbench"), "fleet", "-target", target, "-proxies", fmt.Sprint(proxies), "-delta="+fmt.Sprint(delta))
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	in, err := cmd.StdinPipe()
	check(t, err)
	out, err := cmd.StdoutPipe()
	check(t, err)
	check(t, cmd.Start())
	t.Cleanup(func() {
		in.Close() // which ends it
		_ = cmd.Wait()
	})
	f := &fleet{t, in, bufio.NewScanner(out)}
	f.read()
	return f
}

func (f *fleet) read() (a told) {
	f.t.Helper()
	if !f.out.Scan() {
		f.t.Fatal("the fleet has ended")
	}
	check(f.t, json.Unmarshal(f.out.Bytes(), &a))
	return a
}

// Kinds of resources, as the fleet numbers them.
const (
	clusters = iota
	assignments
	listeners
	routes
)

// ask sends a command: forget what came ("mark"), tell it, or wait for a kind of all proxies first.
func (f *fleet) ask(words ...any) told {
	f.t.Helper()
	_, err := fmt.Fprintln(f.in, words...)
	check(f.t, err)
	return f.read()
}

// connected is how many proxies a discovery has.
func connected(d *lab.Discovery) (n int, err error) {
	page, err := lab.Get("http://" + d.Monitoring + "/metrics")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(page) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "} "); ok && strings.HasPrefix(name, "pilot_xds{") {
			count, err := strconv.ParseFloat(value, 64)
			if err != nil {
				return 0, err
			}
			n += int(count)
		}
	}
	return n, nil
}

// fill writes services of one port, with slices of endpoints that are Pods or, without withPods, addresses alone. Several writers
// work at once.
func (h hand) fill(namespace string, services, endpoints int, withPods bool) {
	h.t.Helper()
	h.apply(namespaceOf(namespace))
	var g errgroup.Group
	g.SetLimit(8)
	for i := range services {
		g.Go(func() error {
			for _, document := range made(namespace, i, endpoints, 0, withPods) {
				h.apply(document)
			}
			return nil
		})
	}
	check(h.t, g.Wait())
}

// made are the documents of one service: its Pods first. A generation is the last address of its first endpoint.
func made(namespace string, service, endpoints, generation int, withPods bool) (out []string) {
	var list []string
	for j := range endpoints {
		ip := fmt.Sprintf("10.%d.%d.%d", 64+j, service/250, service%250+1)
		if j == 0 && generation > 0 {
			ip = fmt.Sprintf("10.%d.%d.%d", 128+generation%100, service/250, service%250+1)
		}
		pod := fmt.Sprintf("service-%d-%d", service, j)
		ref := ""
		if withPods {
			ref = fmt.Sprintf(", nodeName: node-%d, targetRef: {kind: Pod, namespace: %s, name: %s}", (service*7+j)%100, namespace, pod)
			out = append(out, fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: %[1]s, namespace: %[2]s, labels: {app: service-%[3]d, version: v%[4]d, pod-template-hash: 5d4f8c7b9}}
spec: {nodeName: node-%[5]d, serviceAccountName: service-%[3]d, containers: [{name: app, image: none, env: [{name: A, value: b}]}]}
status: {phase: Running, podIP: %[6]s, podIPs: [{ip: %[6]s}], conditions: [{type: Ready, status: "True"}]}`,
				pod, namespace, service, j%2+1, (service*7+j)%100, ip))
		}
		list = append(list, fmt.Sprintf("{addresses: [%s], conditions: {ready: true}%s}", ip, ref))
	}
	return append(out, fmt.Sprintf(`
apiVersion: v1
kind: Service
metadata: {name: service-%[1]d, namespace: %[2]s}
spec: {selector: {app: service-%[1]d}, ports: [{name: http, port: 80, targetPort: 8080}]}`, service, namespace),
		fmt.Sprintf(`
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: service-%[1]d-1, namespace: %[2]s, labels: {kubernetes.io/service-name: service-%[1]d}}
addressType: IPv4
ports: [{name: http, port: 8080, protocol: TCP}]
endpoints: [%[3]s]`, service, namespace, strings.Join(list, ", ")))
}
