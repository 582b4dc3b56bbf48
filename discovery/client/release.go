package client

import (
	"context"
	"net/http"
	"net/url"
	"strings"
)

// Release asks the discovery at host:port, or :port of this host, to end the hold of a source, and returns its answer, a line of text.
// The error is the answer of a discovery that refuses, as when the source holds nothing.
func Release(ctx context.Context, address, source string) (string, error) {
	text, err := ask(ctx, http.MethodPost, Here(address), "/debug/release", url.Values{"source": {source}}, maxLine)
	return strings.TrimSpace(string(text)), err
}
