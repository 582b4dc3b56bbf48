package probe

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

const (
	longestProbeBody = 10 << 10 // bytes that are read, as many as the kubelet reads
	shownProbeBody   = 512      // bytes that the kubelet may show
	mostRedirects    = 10
)

// ask sends the probe to the first of the addresses that accepts it, as the kubelet would: it follows a redirect within the host, and does not verify the certificate.
func (h *HTTPGet) ask(ctx context.Context, at []string, userAgent string) (code int, text string, err error) {
	transport := &http.Transport{
		DisableKeepAlives: true, DisableCompression: true, MaxResponseHeaderBytes: 64 << 10,
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
		DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
			_, port, err := net.SplitHostPort(address) // which a redirect may have changed
			if err != nil {
				return nil, err
			}
			return DialFirst(ctx, at, port)
		},
	}
	request, err := h.request(ctx, at[0], userAgent)
	if err != nil {
		return 0, "", err
	}
	response, body, err := answerOf(transport, request)
	if err != nil {
		return 0, "", err
	}
	return response.StatusCode, strings.ToValidUTF8(string(body[:min(len(body), shownProbeBody)]), "?"), nil
}

func (h *HTTPGet) request(ctx context.Context, host, userAgent string) (*http.Request, error) {
	target, err := url.Parse(h.Path) // which may have a query
	if err != nil {
		return nil, err
	}
	target.Scheme = strings.ToLower(h.Scheme)
	target.Host = net.JoinHostPort(host, strconv.Itoa(int(h.Port)))
	if !strings.HasPrefix(target.Path, "/") {
		target.Path = "/" + target.Path
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, target.String(), nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("User-Agent", cmp.Or(userAgent, "kube-probe/agent"))
	request.Header.Set("Accept", "*/*")
	for _, header := range h.HTTPHeaders {
		if strings.EqualFold(header.Name, "Host") {
			request.Host = header.Value
			continue
		}
		request.Header.Add(header.Name, header.Value)
	}
	return request, nil
}

// answerOf sends the request to the application, and reads at most longestProbeBody of the answer.
func answerOf(transport http.RoundTripper, request *http.Request) (*http.Response, []byte, error) {
	response, err := (&http.Client{Transport: transport, CheckRedirect: sameHost}).Do(request)
	if err != nil {
		return nil, nil, withoutURL(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, longestProbeBody))
	if err != nil {
		return nil, nil, fmt.Errorf("read the application's answer: %w", err)
	}
	return response, body, nil
}

// sameHost allows a redirect within the host; a redirect to another host is returned as the answer.
func sameHost(next *http.Request, via []*http.Request) error {
	switch {
	case next.URL.Hostname() != via[0].URL.Hostname():
		return http.ErrUseLastResponse
	case len(via) >= mostRedirects:
		return fmt.Errorf("stopped after %d redirects", mostRedirects)
	}
	return nil
}

// withoutURL returns the cause of a client's error, without the URL, which is that of the probe.
func withoutURL(err error) error {
	var inner *url.Error
	if errors.As(err, &inner) {
		if inner.Timeout() {
			return errors.New("the application did not answer in time")
		}
		return inner.Err
	}
	return err
}
