package kube

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
)

// remote is a kubeconfig whose cluster and user have these fields.
func remote(cluster, user string) string {
	return fmt.Sprintf(`
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {%s}}]
users: [{name: u, user: {%s}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x`, cluster, user)
}

// A kubeconfig of a Secret may neither run programs nor read files, and the error for a bad one does not contain its
// text.
func TestRemote(t *testing.T) {
	const server = `server: "https://192.0.2.1:6443"`
	secret := "s3cr3t-" + strings.Repeat("x", 20)
	ca := "certificate-authority-data: " + base64.StdEncoding.EncodeToString([]byte("-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n"))
	for name, row := range map[string]struct{ text, want string }{
		"token":           {remote(server, "token: "+secret), ""},
		"impersonation":   {remote(server, "token: "+secret+", as: somebody"), ""},
		"password":        {remote(server, "username: u, password: "+secret), ""},
		"exec":            {remote(server, "exec: {apiVersion: client.authentication.k8s.io/v1, command: /bin/sh}"), "users[u].exec would run a program"},
		"auth-provider":   {remote(server, "auth-provider: {name: gcp}"), "users[u].auth-provider would run code"},
		"token file":      {remote(server, "tokenFile: /etc/shadow"), "users[u].tokenFile is a path"},
		"certificate":     {remote(server, "client-certificate: /etc/a, client-key-data: YQ=="), "users[u].client-certificate is a path"},
		"key":             {remote(server, "client-certificate-data: YQ==, client-key: /etc/a"), "users[u].client-key is a path"},
		"roots":           {remote(server+", certificate-authority: /etc/a", "token: a"), "clusters[c].certificate-authority is a path"},
		"unverified":      {remote(server+", insecure-skip-tls-verify: true", "token: a"), "clusters[c].insecure-skip-tls-verify is true"},
		"plain text":      {remote(`server: "http://192.0.2.1"`, "token: a"), "clusters[c].server is"},
		"no server":       {remote("", "token: a"), "clusters[c].server is"},
		"no scheme":       {remote("server: 192.0.2.1", "token: a"), "clusters[c].server is"},
		"a user in URL":   {remote(`server: "https://u:`+secret+`@192.0.2.1"`, "token: a"), "clusters[c].server has"},
		"no context":      {strings.Replace(remote(server, "token: a"), "current-context: x", "", 1), "current-context"},
		"unknown context": {strings.Replace(remote(server, "token: a"), "current-context: x", "current-context: "+secret, 1), "current-context"},
		"unknown cluster": {strings.Replace(remote(server, "token: a"), "cluster: c,", "cluster: d,", 1), "its current-context names a cluster or a user that is not there"},
		"unknown user":    {strings.Replace(remote(server, "token: a"), "user: u}", "user: v}", 1), "its current-context names a cluster or a user that is not there"},
		"empty":           {"", "is empty"},
		"no YAML":         {"{" + secret, "is no kubeconfig"},
		"another kind":    {"apiVersion: v1\nkind: Secret\ndata: {a: " + secret + "}", "is no kubeconfig"},
		"a wrong type":    {remote(server, "token: ["+secret+"]"), "is no kubeconfig"},
		"bad roots":       {remote(server+", certificate-authority-data: "+base64.StdEncoding.EncodeToString([]byte(secret)), "token: a"), "cannot be used"},
		"bad key":         {remote(server, "client-certificate-data: "+base64.StdEncoding.EncodeToString([]byte(secret))+", client-key-data: YQ=="), "cannot be used"},
		"proxy":           {remote(server+", proxy-url: \"file:///etc/shadow\"", "token: a"), "clusters[c].proxy-url"},
		"half a file":     {remote(server+", "+ca, "token: a")[:60], "is no kubeconfig"},
	} {
		connect, err := Remote([]byte(row.text), "test")
		switch {
		case row.want == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case row.want == "":
			client, err := connect()
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			client.Close()
		case err == nil || !strings.Contains(err.Error(), row.want):
			t.Errorf("%s: got %v, want %s", name, err, row.want)
		case strings.Contains(err.Error(), secret):
			t.Errorf("%s: the fault holds the text: %v", name, err)
		}
	}
}
