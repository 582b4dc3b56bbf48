package webhook

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Service is the Service of discovery's webhooks, in a cluster of a DNS domain.
type Service struct{ Namespace, Name, Domain string }

// names returns the DNS names by which the API server may call a Service.
func (s Service) names() []string {
	short := s.Name + "." + s.Namespace + ".svc"
	return []string{short, short + "." + s.Domain}
}

// operation is an operation of a JSON patch.
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

// bundlePatch returns the JSON patch that writes the roots into those webhooks of a configuration that call discovery:
// by the Service, or by a URL of one of these hosts. It is nil where nothing differs. foreign are the names of the
// other webhooks.
func bundlePatch(configuration *unstructured.Unstructured, s Service, hosts []string, roots []byte) (patch []byte, foreign []string, err error) {
	var operations []operation
	webhooks, _, _ := unstructured.NestedSlice(configuration.Object, "webhooks")
	for i, w := range webhooks {
		webhook, _ := w.(map[string]any)
		name, _ := webhook["name"].(string)
		client, _ := webhook["clientConfig"].(map[string]any)
		if !calls(client, s, hosts) {
			foreign = append(foreign, name)
			continue
		}
		if has, _ := client["caBundle"].(string); has != "" {
			if found, err := base64.StdEncoding.DecodeString(has); err == nil && bytes.Equal(found, roots) {
				continue
			}
		}
		at := fmt.Sprintf("/webhooks/%d", i)
		operations = append(operations,
			operation{"test", at + "/name", name}, // the patch fails if the webhook is at another index now
			operation{"add", at + "/clientConfig/caBundle", roots})
	}
	if len(operations) == 0 {
		return nil, foreign, nil
	}
	patch, err = json.Marshal(operations)
	return patch, foreign, err
}

// missing returns the reason why the API server calls no webhook here by a configuration; nothing if it calls one.
func missing(kind, name string, found []*unstructured.Unstructured, s Service, hosts []string) []string {
	i := slices.IndexFunc(found, func(c *unstructured.Unstructured) bool { return c.GetKind() == kind && c.GetName() == name })
	if i < 0 {
		return []string{fmt.Sprintf("there is no %s %s", kind, name)}
	}
	webhooks, _, _ := unstructured.NestedSlice(found[i].Object, "webhooks")
	for _, w := range webhooks {
		webhook, _ := w.(map[string]any)
		client, _ := webhook["clientConfig"].(map[string]any)
		if calls(client, s, hosts) {
			return nil
		}
	}
	return []string{fmt.Sprintf("no webhook of %s %s calls service %s/%s", kind, name, s.Namespace, s.Name)}
}

// calls reports whether a webhook's clientConfig leads to discovery.
func calls(client map[string]any, s Service, hosts []string) bool {
	if service, ok := client["service"].(map[string]any); ok {
		return service["namespace"] == s.Namespace && service["name"] == s.Name
	}
	text, _ := client["url"].(string)
	at, err := url.Parse(text)
	return err == nil && text != "" && slices.Contains(hosts, at.Hostname())
}
