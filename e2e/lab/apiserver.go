package lab

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// APIServer is where an API server of Kubernetes runs, and what is needed to start it: on loopback, with the tokens tok-admin,
// tok-discovery and tok-stranger, of which the first may do everything.
type APIServer struct {
	Dir     string // of its files
	Address string // host:port
	CA      []byte // PEM of the authority of its certificate
}

// KubePart is the path of a program that envoy-tools/fetch-kube builds or downloads.
func KubePart(name string) string { return Path("bin", "kube", name) }

// Etcd is a store at a URL, with its data in a directory.
func Etcd(dir, url string) Spec {
	return Spec{Name: "etcd", Dir: dir, Argv: []string{
		KubePart("etcd"), "--name", "t", "--data-dir", filepath.Join(dir, "etcd"), "--unsafe-no-fsync",
		"--listen-client-urls", url, "--advertise-client-urls", url,
		"--listen-peer-urls", "http://127.0.0.1:0", "--initial-advertise-peer-urls", "http://127.0.0.1:0",
	}}
}

// NewAPIServer writes into a directory what an API server and its clients prove themselves with.
func NewAPIServer(dir string, port int) (*APIServer, error) {
	authority, err := NewAuthority("cluster")
	if err != nil {
		return nil, err
	}
	identity, err := authority.IssueWith("kubernetes", 1, func(x *x509.Certificate) { x.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)} })
	if err != nil {
		return nil, err
	}
	if err := identity.Write(dir, "server"); err != nil {
		return nil, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, err
	}
	a := &APIServer{Dir: dir, Address: fmt.Sprintf("127.0.0.1:%d", port), CA: authority.PEM()}
	_, err = a.write("sa.key", string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})))
	_, also := a.write("tokens.csv", "tok-admin,admin,1,system:masters\ntok-discovery,discovery,2\ntok-stranger,stranger,3\n")
	return a, errors.Join(err, also)
}

// Spec is its process, with its objects under a prefix of a store's keys.
func (a *APIServer) Spec(store, prefix string, flags ...string) Spec {
	in := func(name string) string { return filepath.Join(a.Dir, name) }
	_, port, _ := net.SplitHostPort(a.Address) // it was made of both
	return Spec{Name: "kube-apiserver", Dir: a.Dir, Argv: append([]string{
		KubePart("kube-apiserver"), "--etcd-servers=" + store, "--etcd-prefix=" + prefix, "--bind-address=127.0.0.1", "--advertise-address=127.0.0.1",
		"--secure-port=" + port, "--cert-dir=" + a.Dir, "--tls-cert-file=" + in("server.pem"), "--tls-private-key-file=" + in("server.key"),
		"--client-ca-file=" + in("ca.pem"), "--token-auth-file=" + in("tokens.csv"),
		"--service-account-issuer=https://" + a.Address, "--service-account-key-file=" + in("sa.key"),
		"--service-account-signing-key-file=" + in("sa.key"), "--authorization-mode=RBAC", "--service-cluster-ip-range=10.96.0.0/16",
		"--endpoint-reconciler-type=none", "--disable-admission-plugins=ServiceAccount", "--enable-priority-and-fairness=false",
	}, flags...)}
}

// Kubeconfig writes how a user reaches it, with the context "test", which leads there, and "other", which leads nowhere.
func (a *APIServer) Kubeconfig(user, current string) (path string, err error) {
	return a.write("kubeconfig-"+user+"-"+current, fmt.Sprintf(`
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://%s", certificate-authority: %s}}]
users: [{name: u, user: {token: tok-%s}}]
contexts: [{name: test, context: {cluster: c, user: u}}, {name: other, context: {cluster: gone, user: u}}]
current-context: %s
`, a.Address, filepath.Join(a.Dir, "ca.pem"), user, current))
}

func (a *APIServer) write(name, text string) (path string, err error) {
	path = filepath.Join(a.Dir, name)
	return path, os.WriteFile(path, []byte(text), 0o600)
}

// Ready returns nil once it is ready and has created the Service kubernetes in the namespace default. It does that by itself,
// after /readyz has answered 200: a test that runs already would see the Service appear at any moment.
func (a *APIServer) Ready() error {
	if err := a.Ask(http.MethodGet, "/readyz", ""); err != nil {
		return err
	}
	return a.Ask(http.MethodGet, "/api/v1/namespaces/default/services/kubernetes", "")
}

// Apply sends the admin's object, a text of YAML, to its path, by server-side apply.
func (a *APIServer) Apply(path, yaml string) error {
	return a.Ask(http.MethodPatch, path+"?fieldManager=test&force=true", yaml)
}

// Ask sends the admin's request, with a text of YAML. A status other than 2xx is an error with its text.
func (a *APIServer) Ask(method, path, yaml string) error {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(a.CA)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, DisableKeepAlives: true}
	client := &http.Client{Transport: transport, Timeout: 5 * time.Second}
	request, err := http.NewRequest(method, "https://"+a.Address+path, strings.NewReader(yaml))
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer tok-admin")
	request.Header.Set("Content-Type", "application/apply-patch+yaml")
	answer, err := client.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, 4096))
	if err == nil && answer.StatusCode/100 != 2 {
		err = fmt.Errorf("%s %s: %s: %s", method, path, answer.Status, body)
	}
	return err
}
