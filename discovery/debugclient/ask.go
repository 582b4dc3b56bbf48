package debugclient

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/pilotlight/pilotlight/discovery/explain"
)

// timeout bounds a question and its answer; the others bound the bytes of an answer: of a line, a verdict, and a page.
const (
	timeout    = 30 * time.Second
	maxLine    = 4 << 10
	maxVerdict = 32 << 20
	maxPage    = 256 << 20
)

// Proxies asks a discovery for its connected proxies, and returns them as JSON.
func Proxies(ctx context.Context, at At) ([]byte, error) {
	return ask(ctx, http.MethodGet, at, "/debug/proxies", nil, maxPage)
}

// Config asks for the resources that a proxy was sent, by type, and returns them as JSON.
func Config(ctx context.Context, at At, node string) ([]byte, error) {
	return ask(ctx, http.MethodGet, at, "/debug/config_dump", url.Values{"proxyID": {node}}, maxPage)
}

// Explain asks what becomes of one request.
func Explain(ctx context.Context, at At, q explain.Question) (road explain.Road, err error) {
	text, err := ask(ctx, http.MethodGet, at, "/debug/explain", q.Values(), maxPage)
	if err != nil {
		return road, err
	}
	if err = json.Unmarshal(text, &road); err == nil && road.To == "" {
		err = errors.New("there is no road in it") // another program's JSON
	}
	if err != nil {
		return road, fmt.Errorf("read /debug/explain: %w; is it a discovery of this version?", err)
	}
	return road, nil
}

// Validate has files judged, as they are sent, and returns the verdict as JSON.
func Validate(ctx context.Context, at At, files []byte) ([]byte, error) {
	return send(ctx, http.MethodPost, at, "/debug/validate", nil, files, maxVerdict)
}

// Envoy asks the agent at host:port, or :port of this host, for what its Envoy has, and returns Envoy's own JSON.
func Envoy(ctx context.Context, address string) ([]byte, error) {
	return ask(ctx, http.MethodGet, Here(address), "/config_dump", url.Values{"include_eds": {""}}, maxPage)
}

// EnvoyClusters asks the same agent for the clusters of its Envoy, with the health of endpoints, and returns Envoy's own JSON.
func EnvoyClusters(ctx context.Context, address string) ([]byte, error) {
	return ask(ctx, http.MethodGet, Here(address), "/clusters", url.Values{"format": {"json"}}, maxPage)
}

// ask returns the body of an answer, of most bytes. The error has the text of a discovery that refuses.
func ask(ctx context.Context, method string, at At, path string, query url.Values, most int64) ([]byte, error) {
	return send(ctx, method, at, path, query, nil, most)
}

// send does the same, with a body.
func send(ctx context.Context, method string, at At, path string, query url.Values, body []byte, most int64) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	scheme, host, by := at.reach()
	u := url.URL{Scheme: scheme, Host: host, Path: path, RawQuery: query.Encode()}
	request, err := http.NewRequestWithContext(ctx, method, u.String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	response, err := by.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	said, err := io.ReadAll(io.LimitReader(response.Body, most+1))
	text := strings.TrimSpace(string(said[:min(len(said), maxLine)]))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read the answer of %s: %w", u.String(), err)
	case response.StatusCode == http.StatusNotFound && strings.HasPrefix(text, "404 page"):
		return nil, fmt.Errorf("%s has no page %s: is it a discovery of this version?", host, path)
	case scheme == "https" && response.StatusCode == http.StatusForbidden:
		return nil, fmt.Errorf("%s refuses the certificate: it wants one of the mesh's root namespace; its log says more", host)
	case response.StatusCode != http.StatusOK && text == "":
		return nil, errors.New(response.Status)
	case response.StatusCode != http.StatusOK:
		return nil, errors.New(text)
	case int64(len(said)) > most:
		return nil, fmt.Errorf("the answer of %s has more than %d bytes", u.String(), most)
	}
	return said, nil
}
