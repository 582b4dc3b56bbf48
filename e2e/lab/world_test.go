package lab

import "testing"

// A spec may be written in the indentation of the test around it; lines that belong together stay so.
func TestDocuments(t *testing.T) {
	got := documents([]string{
		"Gateway edge", "selector: {app: edge}",
		"VirtualService app", `
		hosts: [app.test]
		http:
		- route: [{destination: {host: app.test}}]
		`,
	})
	const want = `---
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: edge}
spec:
  selector: {app: edge}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: app}
spec:
  hosts: [app.test]
  http:
  - route: [{destination: {host: app.test}}]
`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got := fileOf("ServiceEntry", "app.test"); got != "serviceentry-app.test.yaml" {
		t.Errorf("a ServiceEntry's file is %s", got)
	}
}
