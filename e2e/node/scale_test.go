//go:build node

package node

import (
	"fmt"
	"strings"
	"time"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// scales changes the number of Pods of reviews under load, from outside and between sidecars, and lets a rollout fail: Pods
// that are not ready get no request, however many of them there are.
func (n *node) scales(gateway string) {
	n.t.Helper()
	n.kubectl("apply", "-f", n.write("outside.yaml", `
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: outside, namespace: bookinfo}
spec: {selector: {istio: ingressgateway}, servers: [{port: {number: 8080, name: http, protocol: HTTP}, hosts: [reviews.example.com]}]}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: outside, namespace: bookinfo}
spec: {hosts: [reviews.example.com], gateways: [outside], http: [{route: [{destination: {host: reviews, subset: v1}}]}]}`))
	const reviews = "http://reviews.example.com/reviews/0"
	n.eventually(30*time.Second, func() error {
		for range 40 { // new connections, so that each of the gateways has it
			if _, err := lab.GetThrough(gateway, reviews); err != nil {
				return err
			}
		}
		return nil
	})
	load := func() (direct, pages *lab.Load) {
		return lab.StartSlowLoad(gateway, reviews, 2, 2, 10*time.Millisecond), lab.StartSlowLoad(gateway, "http://bookinfo.example.com/productpage", 1, 1, 10*time.Millisecond)
	}
	deployment := func(args ...string) string {
		n.t.Helper()
		return n.kubectl(append([]string{"-n", "bookinfo"}, args...)...)
	}

	direct, pages := load()
	for _, replicas := range []int{8, 1} {
		deployment("scale", "deployment", "reviews-v1", fmt.Sprintf("--replicas=%d", replicas))
		deployment("rollout", "status", "deployment", "reviews-v1", "--timeout=180s")
		n.gone("bookinfo")
	}
	n.unharmed("1 → 8 → 1", direct, pages)

	// A rollout of two whose Pods never get ready, beside one of before.
	deployment("patch", "deployment", "reviews-v1", "--type=merge", "-p", `{"spec": {"replicas": 2, "strategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}}}}`)
	deployment("rollout", "status", "deployment", "reviews-v1", "--timeout=120s")
	direct, pages = load()
	deployment("patch", "deployment", "reviews-v1", "--type=json", "-p",
		`[{"op": "replace", "path": "/spec/template/spec/containers/0/readinessProbe", "value": {"exec": {"command": ["/nowhere"]}, "periodSeconds": 1}}]`)
	var before int64
	n.eventually(2*time.Minute, func() error {
		// Programs that run and are not ready, beside their sidecars, which are.
		states := deployment("get", "pods", "-l", "app=reviews,version=v1", "-o",
			`jsonpath={range .items[*]}{.status.phase} {.status.containerStatuses[?(@.name=="reviews")].ready} {.status.containerStatuses[?(@.name=="reviews")].state.running.startedAt}{"\n"}{end}`)
		if strings.Count(states, "Running false 2") != 2 || strings.Count(states, "Running true 2") != 1 {
			return fmt.Errorf("want two Pods that run and are not ready, and one that is; they are\n%s", states)
		}
		before = direct.Requests()
		return nil
	})
	n.eventually(time.Minute, func() error {
		if now := direct.Requests(); now < before+1000 {
			return fmt.Errorf("%d requests, want %d more", now, before+1000-now)
		}
		return nil
	})
	deployment("rollout", "undo", "deployment", "reviews-v1")
	deployment("rollout", "status", "deployment", "reviews-v1", "--timeout=120s")
	n.gone("bookinfo")
	n.unharmed("a failed rollout", direct, pages)
}

// unharmed ends loads, and fails the test with each request that failed, at the gateway or behind it.
func (n *node) unharmed(what string, direct, pages *lab.Load) {
	n.t.Helper()
	n.t.Logf("%s: at the gateway, then between sidecars:", what)
	lab.Unharmed(n.t, direct)
	lab.Unharmed(n.t, pages)
	for body, times := range pages.Bodies() {
		if strings.Contains(body, "unavailable") || !strings.Contains(body, "Reviewer1") {
			n.t.Errorf("%s: %d pages are %s", what, times, body)
		}
	}
}
