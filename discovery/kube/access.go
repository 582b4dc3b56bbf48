package kube

import (
	"fmt"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Access says how to reach an API server: as a kubeconfig file says, in one of its contexts or in the current one, or without a
// file as a Pod finds it in its cluster.
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

// Client reads what it needs, as it is now, and returns a new client.
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
