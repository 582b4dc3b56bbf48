package main

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"
)

// A directory that was written for a cluster is served without a cluster: Kubernetes' objects beside Istio's.
func TestServeManifests(t *testing.T) {
	dir := t.TempDir()
	const service = "{apiVersion: v1, kind: Service, metadata: {name: reviews}, spec: {selector: {app: reviews}, ports: [{port: 9080, name: http}]}}\n"
	write(t, filepath.Join(dir, "a.yaml"), service+`---
{apiVersion: networking.istio.io/v1, kind: WorkloadEntry, metadata: {name: one}, spec: {address: 10.0.0.7, labels: {app: reviews}}}
---
{apiVersion: networking.istio.io/v1, kind: VirtualService, metadata: {name: reviews}, spec: {hosts: [reviews], http: [{route: [{destination: {host: reviews}}]}]}}
`)
	s := startServe(t, "--configDir", dir)
	s.await(t, http.StatusOK)
	s.awaitPage(t, "/debug/registryz", func(page string) bool {
		return strings.Contains(page, "reviews.default.svc.cluster.local") && strings.Contains(page, `"endpoints": 1`)
	})
	s.awaitPage(t, "/debug/notes", func(page string) bool { return !strings.Contains(page, "unknown-host") })
	write(t, filepath.Join(dir, "a.yaml"), strings.Replace(service, "9080", "nine", 1))
	s.awaitPage(t, "/ready?verbose", func(page string) bool { return strings.Contains(page, dir+"/a.yaml:1: cannot be read") })
	if page := s.get(t, s.web, "/debug/registryz"); !strings.Contains(page, "reviews.default.svc.cluster.local") {
		t.Errorf("the last good form of the service is gone: %s", page)
	}
	write(t, filepath.Join(dir, "a.yaml"), strings.ReplaceAll(service, "reviews", "ratings"))
	s.awaitPage(t, "/debug/registryz", func(page string) bool { return !strings.Contains(page, "reviews.default.svc.cluster.local") })
	s.stop(t)
}
