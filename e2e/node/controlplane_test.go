//go:build node

package node

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net"
	"syscall"
	"time"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// reread is the signal at which dnsmasq reads its files again.
const reread = syscall.SIGHUP

// controlPlane starts etcd, the API server, and what runs beside it.
func (n *node) controlPlane() {
	n.t.Helper()
	n.credentials()
	const storage = "http://127.0.0.1:2379"
	n.start("etcd", part("etcd"), "--name", "t", "--data-dir", n.in("etcd"), "--unsafe-no-fsync", "--listen-client-urls", storage,
		"--advertise-client-urls", storage, "--listen-peer-urls", "http://127.0.0.1:0", "--initial-advertise-peer-urls", "http://127.0.0.1:0")
	n.start("kube-apiserver", part("kube-apiserver"), "--etcd-servers="+storage, "--bind-address=0.0.0.0", "--advertise-address="+address,
		"--secure-port=6443", "--cert-dir="+n.dir, "--tls-cert-file=server.pem", "--tls-private-key-file=server.key", "--client-ca-file=ca.pem",
		"--token-auth-file=tokens.csv", "--service-account-issuer=https://kubernetes.default.svc", "--service-account-key-file=sa.key",
		"--service-account-signing-key-file=sa.key", "--authorization-mode=Node,RBAC", "--service-cluster-ip-range=10.96.0.0/16", "--allow-privileged",
		"--kubelet-preferred-address-types=InternalIP", "--kubelet-certificate-authority=ca.pem",
		"--kubelet-client-certificate=client.pem", "--kubelet-client-key=client.key", "--enable-admission-plugins=NodeRestriction")
	n.eventually(time.Minute, func() error {
		_, err := n.run(part("kubectl"), "get", "--raw", "/readyz")
		return err
	})
	own := "--kubeconfig=" + n.in("admin.kubeconfig")
	n.start("kube-controller-manager", part("kube-controller-manager"), own, "--root-ca-file=ca.pem", "--service-account-private-key-file=sa.key",
		"--leader-elect=false", "--bind-address=127.0.0.1", "--cert-dir="+n.in("manager"))
	n.start("kube-scheduler", part("kube-scheduler"), own, "--leader-elect=false", "--bind-address=127.0.0.1", "--cert-dir="+n.in("scheduler"))
	n.start("kube-proxy", part("kube-proxy"), "--config="+n.write("proxy.yaml", `
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: nftables
clientConnection: {kubeconfig: `+n.in("admin.kubeconfig")+`}
clusterCIDR: 10.244.0.0/16
hostnameOverride: node1
conntrack: {maxPerCore: 0, min: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}
`))
}

// credentials writes what the parts prove themselves with.
func (n *node) credentials() {
	n.t.Helper()
	authority, err := lab.NewAuthority("cluster")
	check(n.t, err)
	for file, names := range map[string][]string{
		"server":  {"kubernetes", "kubernetes.default", "kubernetes.default.svc"},
		"kubelet": {"node1"},
		"client":  {"kube-apiserver"}, // to the kubelet, for logs
	} {
		identity, err := authority.IssueWith(names[0], 1, func(c *x509.Certificate) {
			c.Subject.Organization, c.DNSNames = []string{"system:masters"}, names
			c.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1), net.ParseIP(address), net.IPv4(10, 96, 0, 1)}
		})
		check(n.t, err)
		check(n.t, identity.Write(n.dir, file))
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(n.t, err)
	der, err := x509.MarshalECPrivateKey(key)
	check(n.t, err)
	n.write("sa.key", string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})))
	n.write("tokens.csv", "tok-admin,admin,1,system:masters\ntok-node,system:node:node1,2,system:nodes\n")
	n.write("ca.pem", string(authority.PEM()))
	for _, user := range []string{"admin", "node"} {
		n.write(user+".kubeconfig", fmt.Sprintf(`
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: %q, certificate-authority: %s}}]
users: [{name: u, user: {token: tok-%s}}]
contexts: [{name: c, context: {cluster: c, user: u}}]
current-context: c
`, apiServer, n.in("ca.pem"), user))
	}
}
