package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"

	"github.com/pilotlight/pilotlight/agent"
	"github.com/pilotlight/pilotlight/agent/health"
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

// Status is the part of the document of /status that is shown.
type Status struct {
	Node  string `json:"node"`
	Ready bool   `json:"ready"`
	agent.Status
	Epochs    []Epoch        `json:"epochs"` // instead of agent.Status's
	Health    health.Verdict `json:"health"`
	Readiness struct {
		Since *time.Time `json:"since"` // of the current readiness; nil before it was first computed
	} `json:"readiness"`
	LastFailure  *status.Exit         `json:"last_failure"` // nil for none
	Certificates []status.Certificate `json:"certificates"`
	Recording    *status.Recording    `json:"recording"` // nil where nothing is to be remembered
}

// Epoch is one Envoy process.
type Epoch struct {
	agent.EpochStatus
	Pid int `json:"pid"` // 0 before its fork
}

// Status returns the agent's status, and the document unchanged.
func (c *Client) Status(ctx context.Context) (Status, []byte, error) {
	a, err := c.ask(ctx, http.MethodGet, "/status")
	if err != nil {
		return Status{}, nil, err
	}
	var s Status
	if err := json.Unmarshal(a.body, &s); err != nil || a.code != http.StatusOK || s.Node == "" {
		return Status{}, nil, fmt.Errorf("%s is no agent (is %s right?): %w", c.Base.Host, c.Setting, a)
	}
	return s, a.body, nil
}

// upgradePause is the time between two questions whether another image runs.
const upgradePause = 20 * time.Millisecond

// Upgrade has the agent replace its program by a binary, empty for the one at the path of its own, and waits until that runs. It returns
// the version of the binary.
func (c *Client) Upgrade(ctx context.Context, binary string) (version string, err error) {
	c.Owner = true
	before, err := c.upgrades(ctx)
	if err != nil {
		return "", err
	}
	a, err := c.ask(ctx, http.MethodPost, "/upgrade?binary="+url.QueryEscape(binary))
	switch {
	case err != nil:
		return "", err
	case a.code != http.StatusAccepted:
		return "", errors.New(strings.TrimSpace(string(a.body)))
	}
	for {
		now, err := c.upgrades(ctx)
		switch {
		case err == nil && now.Count > before.Count:
			runs := strings.TrimSpace(string(a.body))
			for _, setting := range now.NotInForce {
				runs += "\nnot in force: " + setting
			}
			return runs, nil
		case err == nil && now.Failure != "" && now.Pending == "":
			return "", fmt.Errorf("the agent goes on as it was: %s", now.Failure)
		case errors.Is(err, ErrNobody): // its sockets stay open during a replacement
			return "", fmt.Errorf("the agent has ended: %w", err)
		}
		select {
		case <-ctx.Done():
			return "", context.Cause(ctx)
		case <-time.After(upgradePause): // a question during the replacement may have got no answer
		}
	}
}

func (c *Client) upgrades(ctx context.Context) (status.Upgrades, error) {
	a, err := c.ask(ctx, http.MethodGet, "/status")
	if err != nil {
		return status.Upgrades{}, err
	}
	var s struct {
		Upgrades status.Upgrades `json:"upgrades"`
	}
	if err := json.Unmarshal(a.body, &s); err != nil {
		return s.Upgrades, fmt.Errorf("%w: no JSON: %w", a, err)
	}
	return s.Upgrades, nil
}

// Why returns why requests failed, as the Envoy that serves counts it.
func (c *Client) Why(ctx context.Context) (status.Why, error) {
	a, err := c.ask(ctx, http.MethodGet, "/why")
	if err != nil {
		return status.Why{}, err
	}
	if a.code != http.StatusOK {
		return status.Why{}, fmt.Errorf("%s: %w", c.Base.Host, a)
	}
	var w status.Why
	if err := json.Unmarshal(a.body, &w); err != nil || w.At.IsZero() {
		return status.Why{}, fmt.Errorf("%s is no agent (is %s right?): %w", c.Base.Host, c.Setting, a)
	}
	return w, nil
}
