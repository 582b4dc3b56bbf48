package kube

import (
	"fmt"

	admission "k8s.io/client-go/kubernetes/typed/admissionregistration/v1"
	core "k8s.io/client-go/kubernetes/typed/core/v1"
)

// Secrets returns a client of the Secrets of a namespace.
func (c *Client) Secrets(namespace string) (core.SecretInterface, error) {
	client, err := core.NewForConfigAndClient(c.config, c.http)
	if err != nil {
		return nil, fmt.Errorf("make a client of Secrets: %w", err)
	}
	return client.Secrets(namespace), nil
}

// Webhooks returns a client of WebhookConfigurations.
func (c *Client) Webhooks() (admission.AdmissionregistrationV1Interface, error) {
	client, err := admission.NewForConfigAndClient(c.config, c.http)
	if err != nil {
		return nil, fmt.Errorf("make a client of webhook configurations: %w", err)
	}
	return client, nil
}
