//go:build node

package node

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// The way of docs/kubernetes.md to certificates: the bookinfo under STRICT, with a policy, an HTTPS Gateway, and an Ingress with TLS.
// No command but those of the page, and kubectl create secret of a certificate for the outside, makes one.
func TestCertificatesOnANode(t *testing.T) {
	onANode(t, func(n *node) {
		gateway := n.bookinfo()
		n.strict(gateway + ":80")
		authority, err := lab.NewAuthority("outside")
		check(t, err)
		n.https(authority, gateway+":443")
		n.ingress(authority, gateway+":443")
	})
}

// page runs commands of docs/kubernetes.md as an operator does, in the directory where shop.pem and shop.key are.
func (n *node) page(commands string) (out string) {
	n.t.Helper()
	return n.must("sh", "-ec", "PATH="+lab.Path("bin", "kube")+":$PATH; mkdir -p "+n.in("operator")+"; cd "+n.in("operator")+"\n"+commands)
}

// strict closes the mesh for plain text, and reviews for all but productpage.
func (n *node) strict(gateway string) {
	n.t.Helper()
	const plain, meshed = `sidecar.istio.io/inject: "false"`, `app: script`
	// By address: without DNS of its own the static busybox ends here at a name.
	read := "busybox wget -q -O- http://" + n.kubectl("-n", "bookinfo", "get", "service", "reviews", "-o", "jsonpath={.spec.clusterIP}") + ":9080/reviews/0 2>&1 || echo failed"
	n.eventually(jobLimit, func() error { return n.jobOf(plain, read, "Reviewer1", "failed") })
	n.plainTextIsClosed()
	n.page(lab.Command(n.t, "docs/kubernetes.md", "mode: STRICT"))
	n.eventually(jobLimit, func() error { return n.jobOf(plain, read, "failed", "Reviewer1") })
	n.eventually(jobLimit, func() error { return n.jobOf(meshed, read, "Reviewer1", "failed") })
	n.eventually(30*time.Second, func() error { return page(gateway) })
	n.kubectl("apply", "-f", n.write("policy.yaml", `
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: reviews, namespace: bookinfo}
spec:
  selector: {matchLabels: {app: reviews}}
  rules: [{from: [{source: {principals: [cluster.local/ns/bookinfo/sa/productpage]}}]}]
`))
	n.eventually(jobLimit, func() error { return n.jobOf(meshed, read, "403 Forbidden", "Reviewer1") })
	for range 20 {
		if err := page(gateway); err != nil {
			n.t.Errorf("under STRICT: %v", err)
		}
	}
}

// plainTextIsClosed shows that another Pod reaches discovery over TLS alone.
func (n *node) plainTextIsClosed() {
	n.t.Helper()
	at := n.kubectl("-n", "istio-system", "get", "pod", "-l", "app=discovery", "-o", "jsonpath={.items[0].status.podIP}")
	opens := func(port int) string {
		return fmt.Sprintf("busybox nc -w 3 %s %d -e /bin/busybox true && echo opens %d; ", at, port, port)
	}
	n.eventually(jobLimit, func() error {
		return n.jobOf(`sidecar.istio.io/inject: "false"`, opens(15012)+opens(15010)+"echo tried both", "opens 15012\ntried both", "opens 15010")
	})
}

// https has the Gateway take TLS, and follow its Secret.
func (n *node) https(authority *lab.Authority, at string) {
	n.t.Helper()
	n.pair(authority, "bookinfo.example.com", 11)
	n.page(lab.Command(n.t, "docs/kubernetes.md", "-n istio-ingress create secret tls"))
	trusting := &tls.Config{RootCAs: authority.Pool(), ServerName: "bookinfo.example.com"}
	n.eventually(time.Minute, func() error { return securePage(at, trusting) })
	n.eventually(time.Minute, func() error { return lab.Presents(at, trusting, 11) }) // another replica of the gateway may answer
	n.pair(authority, "bookinfo.example.com", 12)
	n.kubectl("-n", "istio-ingress", "delete", "secret", "shop")
	n.kubectl("-n", "istio-ingress", "create", "secret", "tls", "shop", "--cert="+n.in("operator", "shop.pem"), "--key="+n.in("operator", "shop.key"))
	n.eventually(time.Minute, func() error { return lab.Presents(at, trusting, 12) })
}

// ingress has an Ingress with a certificate, beside the Gateway.
func (n *node) ingress(authority *lab.Authority, at string) {
	n.t.Helper()
	n.pair(authority, "shop.example.com", 13)
	n.page(lab.Command(n.t, "docs/kubernetes.md", "name: pilotlight-ingress}"))
	n.page(lab.Command(n.t, "docs/kubernetes.md", "create ingress"))
	trusting := &tls.Config{RootCAs: authority.Pool(), ServerName: "shop.example.com"}
	n.eventually(2*time.Minute, func() error { return securePage(at, trusting) })
	n.eventually(time.Minute, func() error { return lab.Presents(at, trusting, 13) })
	check(n.t, securePage(at, &tls.Config{RootCAs: authority.Pool(), ServerName: "bookinfo.example.com"}))
}

// pair writes shop.pem and shop.key, as an operator has them.
func (n *node) pair(authority *lab.Authority, host string, serial int64) {
	n.t.Helper()
	identity, err := authority.IssueWith(host, serial, func(*x509.Certificate) {})
	check(n.t, err)
	check(n.t, identity.Write(n.in("operator"), "shop"))
}

// securePage reports whether the page is answered over TLS, with a certificate of the host that is named.
func securePage(at string, config *tls.Config) error {
	a, err := lab.Exchange(lab.ClientTo(at, config), http.MethodGet, "https://"+config.ServerName+"/productpage")
	if err == nil && (a.Status != http.StatusOK || !strings.Contains(a.Body, "Reviewer1")) {
		err = fmt.Errorf("%d: %s", a.Status, a.Body)
	}
	return err
}
