package kube

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
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
