//go:build registries

package registries

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// apiServer is one of Kubernetes, with an etcd of its own.
type apiServer struct {
	*part
	*lab.APIServer
}

// apiServer starts both and waits until the API server is ready.
func (w *world) apiServer() *apiServer {
	w.T.Helper()
	dir, store := filepath.Join(w.Dir, "kube"), "http://"+local(w.port())
	w.check(os.Mkdir(dir, 0o700))
	etcd, err := lab.Start(lab.Etcd(dir, store))
	w.check(err)
	w.StopAtEnd("etcd", etcd)
	a := &apiServer{}
	a.APIServer, err = lab.NewAPIServer(dir, w.port())
	w.check(err)
	a.part = w.part(a.APIServer.Spec(store, "/registry"), a.APIServer.Ready)
	return a
}

// services is the path of the Services of the namespace default.
const services = "/api/v1/namespaces/default/services/"

// service makes a Service with one endpoint.
func (a *apiServer) service(name, ip string, port int) error {
	err := a.Apply(services+name, fmt.Sprintf(`{apiVersion: v1, kind: Service, metadata: {name: %s}, spec: {ports: [{name: http, port: %d}]}}`, name, port))
	if err != nil {
		return err
	}
	return a.Apply("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/"+name, fmt.Sprintf(`apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: %[1]s, labels: {kubernetes.io/service-name: %[1]s}}
addressType: IPv4
ports: [{name: http, port: %[3]d}]
endpoints: [{addresses: [%[2]s], conditions: {ready: true}}]
`, name, ip, port))
}
