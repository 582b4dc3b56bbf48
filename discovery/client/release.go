package client

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// timeout bounds a question and its answer, and maxAnswer the bytes of the answer.
const (
	timeout   = 10 * time.Second
	maxAnswer = 4 << 10
)

// Release asks the discovery at host:port, or :port of this host, to end the hold of a source, and returns its answer, a line of text.
// The error is the answer of a discovery that refuses, as when the source holds nothing.
func Release(ctx context.Context, address, source string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
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
	said, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
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
