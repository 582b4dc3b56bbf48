//go:build kube

package kube

import (
	"syscall"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// An API server that keeps its connections and says nothing any more is noticed: nothing is lost, the source fails and says so,
// and goes on when the server does.
func TestSilentServer(t *testing.T) { lab.InNetworkNamespace(t, silentServer) }

func silentServer(t *testing.T) {
	w := newWorld(t)
	w.hand.apply(echo)
	w.registered("echo.default.svc.cluster.local")
	w.server.Signal(syscall.SIGSTOP)
	t.Cleanup(func() { w.server.Signal(syscall.SIGCONT) })
	began := time.Now()
	w.sources(`"failed"`)
	t.Logf("noticed after %s", time.Since(began).Round(time.Second))
	w.registered("echo.default.svc.cluster.local")
	w.server.Signal(syscall.SIGCONT)
	w.hand.apply(`
apiVersion: v1
kind: Service
metadata: {name: later, namespace: default}
spec: {ports: [{name: http, port: 80}]}`)
	w.registered("later.default.svc.cluster.local")
}
