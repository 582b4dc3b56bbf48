package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Minor requests the server's version, and returns its second number: 36 of 1.36.3.
func (c *Client) Minor(ctx context.Context) (int, error) {
	client, err := c.typed(corev1.SchemeGroupVersion)
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	data, err := client.Get().AbsPath("/version").MaxRetries(0).Do(ctx).Raw()
	if err != nil {
		return 0, fmt.Errorf("ask for the version of the API server: %w", err)
	}
	var answer struct{ Major, Minor string }
	if err := json.Unmarshal(data, &answer); err != nil {
		return 0, fmt.Errorf("ask for the version of the API server: %w", err)
	}
	minor, err := strconv.Atoi(strings.TrimRight(answer.Minor, "+"))
	if err != nil || answer.Major != "1" {
		return 0, fmt.Errorf("the version of the API server is %.20s.%.20s, want 1.N", answer.Major, answer.Minor)
	}
	return minor, nil
}
