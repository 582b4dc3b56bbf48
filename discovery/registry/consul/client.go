package consul

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/pilotlight/pilotlight/internal/bounded"
	"github.com/pilotlight/pilotlight/internal/safefile"
)

const (
	dialTimeout = 10 * time.Second
	askTimeout  = 30 * time.Second // for requests that do not wait for a change
	mostBytes   = 256 << 20        // of one answer; it is read in parts
	maxHeader   = 64 << 10         // of an answer
	maxSaid     = 200              // bytes of an answer that an error repeats
)

// Config holds the settings of the connection to Consul.
type Config struct {
	URL       string   // http://host:port, or https; a path before /v1 may follow
	TokenFile string   // of the ACL token, read for each request; "" for none
	Namespace string   // of Consul Enterprise; "" for the default one
	Partition string   // of Consul Enterprise; "" for that of the agent at URL
	Domains   []string // DNS domains of Consul, in which its services are served; none for Domain

	CACert     string // PEM file of roots; "" for the system's
	ClientCert string // PEM files of the certificate that Consul may request; "" for none
	ClientKey  string
}

func (c Config) spot() spot {
	out := spot{c.Namespace, c.Domains}
	if len(out.domains) == 0 {
		out.domains = []string{Domain}
	}
	return out
}

// client returns a client with separate connections. idle closes them.
func (c Config) client() (client *http.Client, idle func(), err error) {
	if _, err := url.Parse(c.URL); err != nil {
		return nil, nil, errors.New("parse the URL of Consul: want http://host:port or https://host:port") // without it: it may hold a password
	}
	secure, err := c.tls()
	if err != nil {
		return nil, nil, err
	}
	transport := &http.Transport{
		DialContext: (&net.Dialer{Timeout: dialTimeout}).DialContext, TLSHandshakeTimeout: dialTimeout, TLSClientConfig: secure,
		MaxIdleConnsPerHost: lists + workers, IdleConnTimeout: time.Minute, MaxResponseHeaderBytes: maxHeader,
	}
	return &http.Client{Transport: door{c, transport}, CheckRedirect: stay}, transport.CloseIdleConnections, nil
}

// maxFile is the largest size of a file that is read, in bytes: the roots of a whole distribution have 0.3 MB.
const maxFile = 4 << 20

// tls returns the settings of https. The client's certificate is read for each connection, the roots are read once,
// here.
func (c Config) tls() (*tls.Config, error) {
	out := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.CACert != "" {
		pem, err := safefile.Read(c.CACert, maxFile)
		if err != nil {
			return nil, fmt.Errorf("read the roots of Consul's certificate: %w", err)
		}
		out.RootCAs = x509.NewCertPool()
		if !out.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("read the roots of Consul's certificate: %s holds no PEM certificate", c.CACert)
		}
	}
	if c.ClientCert != "" {
		out.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			pair, err := safefile.KeyPair(c.ClientCert, c.ClientKey, maxFile)
			if err != nil {
				return nil, fmt.Errorf("read the certificate for Consul: %w", err)
			}
			return &pair, nil
		}
	}
	return out, nil
}

// token reads the present ACL token; "" for none.
func (c Config) token() (string, error) {
	if c.TokenFile == "" {
		return "", nil
	}
	token, err := safefile.Read(c.TokenFile, maxFile)
	if err != nil {
		return "", fmt.Errorf("read Consul's token: %w", err)
	}
	return strings.TrimSpace(string(token)), nil
}

// stay refuses redirections: the request contains the token.
func stay(r *http.Request, _ []*http.Request) error {
	return fmt.Errorf("it leads to %.*s, which is not followed: want the URL of Consul itself", maxSaid, r.URL.Redacted())
}

// door handles every request: it adds the present token and the place in Consul Enterprise, and limits the answer.
type door struct {
	c    Config
	next http.RoundTripper
}

// RoundTrip sends a request with the present token, and limits the size of the answer.
func (d door) RoundTrip(r *http.Request) (*http.Response, error) {
	token, err := d.c.token()
	if err != nil {
		return nil, err
	}
	r = r.Clone(r.Context())
	if d.c.TokenFile != "" {
		r.Header.Set("X-Consul-Token", token)
	}
	query := r.URL.Query()
	for name, value := range map[string]string{"ns": d.c.Namespace, "partition": d.c.Partition} {
		if value != "" {
			query.Set(name, value)
		}
	}
	r.URL.RawQuery = query.Encode()
	response, err := d.next.RoundTrip(r)
	if err == nil {
		response.Body = body{bounded.New(response.Body, mostBytes, errTooLong), response.Body}
	}
	return response, err
}

// body is that of an answer. It fails after mostBytes.
type body struct {
	io.Reader
	io.Closer
}

var (
	errTooLong = fmt.Errorf("the answer is longer than %d MiB", mostBytes>>20)
	errNull    = errors.New("the answer is null, want a list")
	errNoIndex = errors.New("the answer has no X-Consul-Index: want the URL of a Consul")
	errHidden  = errors.New("there is none, not even Consul's own: the token may not read any service; it needs service:read and node:read")
)

// asker sends requests to one Consul. Its errors name the request.
type asker struct {
	client *http.Client
	Config
	silence time.Duration // after which a request fails
}

// question makes a request wait until a list has another index, for a time.
type question struct {
	index uint64 // 0 for an answer at once
	wait  time.Duration
}

// reply holds the headers of an answer.
type reply struct {
	index    uint64 // 0 if it has none
	filtered bool   // the token hides a part
}

// services returns the tags of each service. Consul's servers are a service too, in the default namespace, so an empty
// list means that the token may see no service. Consul reports that in a header, but not to a request without a token.
func (a asker) services(ctx context.Context, q question) (map[string][]string, reply, error) {
	var list map[string][]string
	meta, err := a.ask(ctx, "/v1/catalog/services", q, func(in io.Reader) (err error) { list, err = readMap[[]string](in); return err })
	if err == nil && len(list) == 0 && meta.index != 0 && (meta.filtered || a.Namespace+a.Partition == "") {
		err = errHidden
	}
	return list, meta, listFault("services", meta, err)
}

func (a asker) checks(ctx context.Context, q question) (healthChecks, reply, error) {
	var list healthChecks
	meta, err := a.ask(ctx, "/v1/health/state/any", q, func(in io.Reader) (err error) { list, err = readList[*healthCheck](in); return err })
	return list, meta, listFault("health checks", meta, err)
}

func (a asker) nodes(ctx context.Context, q question) ([]*nodeEntry, reply, error) {
	var list []*nodeEntry
	meta, err := a.ask(ctx, "/v1/catalog/nodes", q, func(in io.Reader) (err error) { list, err = readList[*nodeEntry](in); return err })
	return list, meta, listFault("nodes", meta, err)
}

func listFault(what string, meta reply, err error) error {
	if err == nil && meta.index == 0 {
		err = errNoIndex
	}
	return about(what, err)
}

// instances returns the instances of a service, with the health checks of each.
func (a asker) instances(ctx context.Context, name string) (list []*serviceEntry, err error) {
	ctx, cancel := context.WithTimeout(ctx, a.silence)
	defer cancel()
	_, err = a.ask(ctx, "/v1/health/service/"+url.PathEscape(name), question{}, func(in io.Reader) (err error) {
		list, err = readList[*serviceEntry](in)
		return err
	})
	return list, about(fmt.Sprintf("service %q", name), err)
}

// ask sends a request, and has its answer read.
func (a asker) ask(ctx context.Context, path string, q question, read func(io.Reader) error) (meta reply, err error) {
	base, err := url.Parse(a.URL)
	if err != nil {
		return meta, errors.New("the URL cannot be parsed")
	}
	user := base.User
	base.User = nil
	query, body := url.Values{}, io.ReadCloser(http.NoBody)
	if q.index != 0 {
		query.Set("index", strconv.FormatUint(q.index, 10))
		query.Set("wait", q.wait.String())
		// net/http repeats a request without a body, on a new connection, when its own breaks. A Consul that has lost its data
		// would let the old index wait for the whole time.
		body = io.NopCloser(strings.NewReader(""))
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimRight(base.String(), "/")+path+"?"+query.Encode(), body)
	if err != nil {
		return meta, err
	}
	if user != nil {
		password, _ := user.Password()
		r.SetBasicAuth(user.Username(), password)
	}
	response, err := a.client.Do(r)
	if err != nil {
		return meta, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		said, _ := io.ReadAll(io.LimitReader(response.Body, maxSaid))
		return meta, fmt.Errorf("unexpected response code: %d (%s)", response.StatusCode, strings.TrimSpace(string(said)))
	}
	meta.index, _ = strconv.ParseUint(response.Header.Get("X-Consul-Index"), 10, 64)
	meta.filtered = response.Header.Get("X-Consul-Results-Filtered-By-ACLs") == "true"
	return meta, read(response.Body)
}

func about(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("read Consul's %s: %w", what, err)
}

// Answers are decoded element by element, so that the memory depends on the fields that are kept, not on the size of the
// answer: a check's output, and definitions, are longer than all else.

// mostElement is how many bytes one element may have.
const mostElement = 8 << 20

var errLongElement = fmt.Errorf("one element of the answer is longer than %d MiB", mostElement>>20)

// readList reads a list.
func readList[T any](in io.Reader) ([]T, error) {
	out := []T{}
	err := elements(in, '[', func(decoder *json.Decoder) error {
		var element T
		if err := decoder.Decode(&element); err != nil {
			return err
		}
		out = append(out, element)
		return nil
	})
	return out, err
}

// readMap reads an object.
func readMap[T any](in io.Reader) (map[string]T, error) {
	out := map[string]T{}
	err := elements(in, '{', func(decoder *json.Decoder) error {
		key, err := decoder.Token()
		if err != nil {
			return err
		}
		var element T
		if err := decoder.Decode(&element); err != nil {
			return err
		}
		out[key.(string)] = element // the decoder accepts nothing else as a key
		return nil
	})
	return out, err
}

// elements reads a list or an object, whose elements each reads.
func elements(in io.Reader, open json.Delim, each func(*json.Decoder) error) error {
	from := bounded.New(in, mostElement, errLongElement)
	decoder := json.NewDecoder(from)
	switch first, err := decoder.Token(); {
	case err != nil:
		return whole(err)
	case first == nil:
		return errNull
	case first != open:
		return fmt.Errorf("found %.20q, want %s", fmt.Sprint(first), open)
	}
	for decoder.More() {
		from.Renew()
		if err := each(decoder); err != nil {
			return whole(err)
		}
	}
	_, err := decoder.Token()
	return whole(err)
}

// whole returns the error of an answer that ends too soon for its end.
func whole(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
