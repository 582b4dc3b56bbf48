package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"

	"github.com/pilotlight/pilotlight/agent/status"
)

// Client sends requests to one server. They never go through an HTTP proxy, each one uses a new connection, and
// redirects are not followed.
type Client struct {
	Base    *url.URL      // http://localhost:15020; "localhost" is 127.0.0.1, else ::1, independent of /etc/hosts
	Setting string        // the name of the port's setting, for errors: "--statusPort"
	Timeout time.Duration // for an answer; for the headers only, if the answer is streamed

	// Socket finds the socket of the agent's owner, which is tried first for requests other than GET and HEAD; nil or an
	// empty path for none. It is called for each request, since a new agent has a new path.
	Socket func() string
	Host   string // the Host header on that socket: status.HostAgent or HostEnvoy
	Owner  bool   // the socket is tried first for every request
}

// ErrNobody is in the error of a request to a port where no process listens.
var ErrNobody = errors.New("nobody listens")

// maxAnswer bounds the size of an answer that is not streamed, in bytes.
const maxAnswer = 4 << 20

// Do sends a request and returns the answer, of any status. The caller reads and closes its body.
func (c *Client) Do(ctx context.Context, method, path string, body io.Reader) (*http.Response, error) {
	target, err := c.Base.Parse(path)
	if err != nil {
		return nil, fmt.Errorf("path %q: %w", path, err)
	}
	request, err := http.NewRequestWithContext(ctx, method, target.String(), body)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", method, path, err)
	}
	way := dial
	if conn := c.owners(ctx, method); conn != nil {
		request.Host = c.Host
		way = func(context.Context, string, string) (net.Conn, error) { return conn, nil }
	}
	server := http.Client{
		Transport:     &http.Transport{DialContext: way, DisableKeepAlives: true, ResponseHeaderTimeout: c.Timeout},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	response, err := server.Do(request)
	if err != nil && request.Host == c.Host && closedUnanswered(err) {
		return nil, fmt.Errorf("%s %s: the agent closes the connection: its socket serves only its own user, and root of its own user namespace", method, path)
	}
	if err != nil {
		return nil, c.complaint(method, target, err)
	}
	return response, nil
}

// closedUnanswered reports whether the server has closed a connection without an answer, as it does with a client that it does not serve.
// Where it does so before the request is written, net/http's error has no name.
func closedUnanswered(err error) bool {
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) || errors.Is(err, io.EOF) ||
		strings.HasSuffix(err.Error(), "http: server closed idle connection")
}

// owners returns a connection to the owner's socket for a request that may change something. It returns nil if there is
// no such socket, or if it belongs to another user: then the request goes to the port.
func (c *Client) owners(ctx context.Context, method string) net.Conn {
	if c.Socket == nil || !c.Owner && (method == http.MethodGet || method == http.MethodHead) {
		return nil
	}
	path := c.Socket()
	if path == "" {
		return nil
	}
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "unix", path)
	if err != nil {
		return nil
	}
	if err := status.CheckServer(conn); err != nil {
		conn.Close()
		return nil
	}
	return conn
}

// ask sends a request and reads the whole answer, within Timeout.
func (c *Client) ask(ctx context.Context, method, path string) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	response, err := c.Do(ctx, method, path, nil)
	if err != nil {
		return answer{}, err
	}
	defer response.Body.Close()
	return c.read(response)
}

func (c *Client) read(response *http.Response) (answer, error) {
	request := response.Request
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return answer{}, c.complaint(request.Method, request.URL, err)
	}
	return answer{
		what:   request.Method + " " + request.URL.RequestURI(),
		status: response.Status,
		code:   response.StatusCode,
		body:   body,
	}, nil
}

// complaint returns the error for a request without an answer, with advice.
func (c *Client) complaint(method string, target *url.URL, err error) error {
	var timeout net.Error
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("%w at %s: is the agent running, is %s right?", ErrNobody, target.Host, c.Setting)
	case errors.As(err, &timeout) && timeout.Timeout():
		return fmt.Errorf("%s: no answer to %s %s within %s", target.Host, method, target.RequestURI(), c.Timeout)
	}
	var wrapped *url.Error // it repeats method and URL
	if errors.As(err, &wrapped) {
		err = wrapped.Err
	}
	return fmt.Errorf("%s: %s %s: %w", target.Host, method, target.RequestURI(), err)
}

// dial connects to an address. It resolves localhost itself, since an image may have neither /etc/hosts nor a resolver.
func dial(ctx context.Context, network, address string) (net.Conn, error) {
	var dialer net.Dialer
	host, port, err := net.SplitHostPort(address)
	if err != nil || host != "localhost" {
		return dialer.DialContext(ctx, network, address)
	}
	conn, err := dialer.DialContext(ctx, network, net.JoinHostPort("127.0.0.1", port))
	if err != nil {
		if six, sixErr := dialer.DialContext(ctx, network, net.JoinHostPort("::1", port)); sixErr == nil {
			return six, nil
		}
	}
	return conn, err
}
