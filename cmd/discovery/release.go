package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pilotlight/pilotlight/internal/setting"
)

// releaseTimeout bounds the request of `discovery release`.
const releaseTimeout = 10 * time.Second

func newRelease() *cobra.Command {
	var s struct{ address string }
	cmd := &cobra.Command{
		Use:   "release SOURCE",
		Short: "Let discovery remove what a source has lost at once",
		Long: `If most hosts of a source are gone at once, which may be an accident, discovery serves them for --wipeDelay and logs an error;
/ready?verbose names them. This command, on the host of discovery, ends that time: what the source has counts.`,
		Example: "  discovery release Consul\n  kubectl exec -n istio-system deploy/discovery -- discovery release Kubernetes",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return setting.Usage("discovery", fmt.Errorf("%d arguments, want SOURCE, as /debug/sources names it", len(args)))
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&s.address, "httpAddr", "127.0.0.1:8080", "the address of discovery's pages on this host")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		said, err := release(cmd.Context(), s.address, args[0])
		if err != nil {
			return fmt.Errorf("release %s: %w", args[0], err)
		}
		cmd.Println(said)
		return nil
	}
	return cmd
}

// release asks the discovery at an address to end the hold of a source, and returns its answer.
func release(ctx context.Context, address, source string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, releaseTimeout)
	defer cancel()
	if strings.HasPrefix(address, ":") {
		address = "127.0.0.1" + address
	}
	u := url.URL{Scheme: "http", Host: address, Path: "/debug/release", RawQuery: url.Values{"source": {source}}.Encode()}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), nil)
	if err != nil {
		return "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	said, err := io.ReadAll(io.LimitReader(response.Body, 4<<10))
	text := strings.TrimSpace(string(said))
	switch {
	case err != nil:
		return "", err
	case response.StatusCode == http.StatusOK:
		return text, nil
	case text == "":
		return "", errors.New(response.Status)
	default:
		return "", errors.New(text)
	}
}
