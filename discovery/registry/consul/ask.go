package consul

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

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
