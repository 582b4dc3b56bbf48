package debugclient

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// Release asks the discovery at host:port, or :port of this host, to end the hold of a source, and returns its answer, a line of text.
// The error is the answer of a discovery that refuses, as when the source holds nothing.
func Release(ctx context.Context, address, source string) (string, error) {
	text, err := ask(ctx, http.MethodPost, Here(address), "/debug/release", url.Values{"source": {source}}, maxLine)
	said := strings.TrimSpace(string(text))
	if err == nil && !strings.HasSuffix(said, "no longer held") {
		return "", fmt.Errorf("%s answers %.100q, which is not what discovery answers: want its --httpAddr", address, said)
	}
	return said, err
}
