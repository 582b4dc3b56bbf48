package kube

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

// Access describes how to connect to an API server: by a kubeconfig file, in the given or its current context, or
// without a file by the environment and files of a Pod in the cluster.
type Access struct {
	File, Context string
	UserAgent     string
}

// Namespace is the namespace of the context, else "default".
func (a Access) Namespace() string {
	rules := &clientcmd.ClientConfigLoadingRules{ExplicitPath: a.File}
	name, _, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: a.Context}).Namespace()
	if err != nil || a.File == "" {
		return "default"
	}
	return name
}

// Client reads the present kubeconfig, or the files of the Pod, and returns a new client.
func (a Access) Client() (*Client, error) {
	config, err := a.config()
	if err != nil {
		return nil, err
	}
	return New(config, a.UserAgent)
}

func (a Access) config() (*rest.Config, error) {
	if a.File == "" {
		config, err := rest.InClusterConfig()
		if err != nil {
			return nil, fmt.Errorf("find the API server of this Pod: %w", err)
		}
		return config, nil
	}
	rules := &clientcmd.ClientConfigLoadingRules{ExplicitPath: a.File}
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: a.Context}).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig %s: %w", a.File, err)
	}
	return config, nil
}

// PersonsFile returns the kubeconfig file that kubectl would read first, by the variable KUBECONFIG and the home directory; "" for none.
func PersonsFile(variable, home string) string {
	for _, path := range filepath.SplitList(variable) {
		if path != "" {
			return path
		}
	}
	path := filepath.Join(home, ".kube", "config")
	if _, err := os.Stat(path); err != nil {
		return ""
	}
	return path
}

// PodNamespace returns the namespace of the Pod in which this process is; "" outside of a Pod.
func PodNamespace() string {
	text, err := os.ReadFile("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

// Remote returns a function that connects to the API server of a kubeconfig from an untrusted author, in its current
// context. It refuses a kubeconfig that would run a program, read a file of this machine, or connect to a server that
// is not verified. An error names the wrong field, and does not contain the text of the kubeconfig, which is secret.
func Remote(kubeconfig []byte, userAgent string) (connect func() (*Client, error), err error) {
	if len(kubeconfig) == 0 {
		return nil, errors.New("is empty, want a kubeconfig")
	}
	read, err := clientcmd.Load(kubeconfig)
	if err != nil || len(read.Clusters) == 0 {
		return nil, errors.New("is no kubeconfig: want apiVersion v1, kind Config, clusters, users, contexts and current-context")
	}
	if err := judge(read); err != nil {
		return nil, err
	}
	config, err := clientcmd.NewNonInteractiveClientConfig(*read, read.CurrentContext, &clientcmd.ConfigOverrides{}, nil).ClientConfig()
	if err != nil {
		return nil, errors.New("cannot be used: clusters, users and contexts do not fit together")
	}
	connect = func() (*Client, error) { return New(config, userAgent) }
	client, err := connect()
	if err != nil {
		return nil, errors.New("cannot be used: its certificates or its key are no PEM, or do not belong together")
	}
	client.Close()
	return connect, nil
}

// judge returns the first fault of a kubeconfig for which it is refused.
func judge(c *api.Config) error {
	for _, name := range slices.Sorted(maps.Keys(c.AuthInfos)) {
		user, in := c.AuthInfos[name], "users["+name+"]."
		switch {
		case user.Exec != nil:
			return errors.New(in + "exec would run a program here, want a token, or client-certificate-data with client-key-data")
		case user.AuthProvider != nil:
			return errors.New(in + "auth-provider would run code of its own here, want a token, or client-certificate-data with client-key-data")
		}
		for _, file := range []struct{ field, path, want string }{
			{"tokenFile", user.TokenFile, "token"},
			{"client-certificate", user.ClientCertificate, "client-certificate-data"},
			{"client-key", user.ClientKey, "client-key-data"},
		} {
			if file.path != "" {
				return fmt.Errorf("%s%s is a path, and files of this machine are not read: want %s", in, file.field, file.want)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Clusters)) {
		if err := judgeCluster(c.Clusters[name]); err != nil {
			return fmt.Errorf("clusters[%s].%w", name, err)
		}
	}
	context := c.Contexts[c.CurrentContext]
	switch {
	case context == nil:
		return errors.New("its current-context is missing, or is none of its contexts")
	case c.Clusters[context.Cluster] == nil || c.AuthInfos[context.AuthInfo] == nil:
		return errors.New("its current-context names a cluster or a user that is not there")
	}
	return nil
}

func judgeCluster(c *api.Cluster) error {
	server, err := url.Parse(c.Server)
	switch {
	case err != nil || server.Scheme != "https" || server.Host == "":
		return errors.New("server is no URL of https, want https://host:port")
	case server.User != nil:
		return errors.New("server has a user, want it in users")
	case c.InsecureSkipTLSVerify:
		return errors.New("insecure-skip-tls-verify is true, so anybody could answer: want certificate-authority-data")
	case c.CertificateAuthority != "":
		return errors.New("certificate-authority is a path, and files of this machine are not read: want certificate-authority-data")
	}
	if proxy, err := url.Parse(c.ProxyURL); err != nil || c.ProxyURL != "" && !slices.Contains([]string{"http", "https", "socks5"}, proxy.Scheme) {
		return errors.New("proxy-url is no URL of http, https or socks5")
	}
	return nil
}
