package client

import (
	"context"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	acmelib "golang.org/x/crypto/acme"

	"github.com/pilotlight/pilotlight/discovery/acme"
	"github.com/pilotlight/pilotlight/discovery/model"
)

// Bounds of one try.
const (
	tryTimeout  = 10 * time.Minute
	showTimeout = time.Minute // for gateways to have an answer
	showAgain   = 100 * time.Millisecond
	settle      = 2 * time.Second  // after they have it
	waitFor     = 30 * time.Second // a gateway that does not accept it is not waited for any longer
)

// errNotShown says that gateways have not accepted an answer: the issuer was not told to ask.
var errNotShown = errors.New("the gateways have not taken the answer to the challenge")

// try goes from a record to a certificate. It saves what it has reached before each request that costs a limit of the
// issuer, and returns the record with the last of it.
func (c *Client) try(ctx context.Context, r acme.Record) (acme.Record, error) {
	ctx, stop := context.WithTimeout(ctx, tryTimeout)
	defer stop()
	save := func(next acme.Record) error {
		err := c.store.Save(ctx, next)
		if next.Order != "" && !errors.Is(err, acme.ErrTaken) {
			r = next // an order that the issuer has taken is not forgotten: it is stored when that is possible
		}
		if err != nil {
			return err
		}
		if r = next; r.Order != "" {
			c.reached(r)
		}
		return nil
	}
	was := r
	if err := save(r.Begin(time.Now(), c.random())); err != nil && (was.Order == "" || c.replicas != nil) {
		was.Unbegun = true
		return was, err
	} // else to go on with an order that is kept costs nothing, and its certificate may be the only one that has not ended
	at := c.accounts[r.Issuer]
	client, err := at.open(ctx)
	if err != nil {
		return r, err
	}
	order, err := c.order(ctx, client, r, save)
	if err != nil {
		return r, err
	}
	if order.Status != acmelib.StatusValid {
		if err := c.prove(ctx, client, r, order, save); err != nil {
			return r, err
		}
	}
	chain, err := finish(ctx, client, r)
	if err != nil {
		return r, err
	}
	leaf, text, err := judge(chain, r, time.Now())
	if err != nil {
		return r, &ended{err}
	}
	return r.Issued(r.OrderKey, text, leaf.NotBefore, leaf.NotAfter), nil // until it is stored the order is: a restart fetches the certificate again
}

// order returns the order that has begun, or a new one.
func (c *Client) order(ctx context.Context, client *acmelib.Client, r acme.Record, save func(acme.Record) error) (*acmelib.Order, error) {
	if r.Order != "" {
		order, err := client.GetOrder(ctx, r.Order)
		if err == nil {
			order.URI = r.Order
		}
		return order, err
	}
	_, key, err := newKey()
	if err != nil {
		return nil, err
	}
	order, err := client.AuthorizeOrder(ctx, acmelib.DomainIDs(r.Hosts...))
	if err != nil {
		return nil, err
	}
	return order, save(r.Ordered(order.URI, key))
}

// pending is a challenge that is not proven yet.
type pending struct {
	url       string // of the authorization
	question  acme.Question
	challenge *acmelib.Challenge
}

// questions returns the challenges of an order that are to be proven.
func questions(ctx context.Context, client *acmelib.Client, r acme.Record, order *acmelib.Order) (all []pending, err error) {
	for _, url := range order.AuthzURLs {
		z, err := client.GetAuthorization(ctx, url)
		if err != nil {
			return nil, err
		}
		switch z.Status {
		case acmelib.StatusValid:
			continue
		case acmelib.StatusPending:
		default:
			return nil, &ended{fmt.Errorf("the authorization of %s is %s", z.Identifier.Value, z.Status)}
		}
		i := slices.IndexFunc(z.Challenges, func(c *acmelib.Challenge) bool { return c.Type == "http-01" })
		if i < 0 {
			return nil, &ended{fmt.Errorf("the issuer offers no challenge http-01 for %s", z.Identifier.Value)}
		}
		answer, err := client.HTTP01ChallengeResponse(z.Challenges[i].Token)
		if err != nil {
			return nil, err
		}
		host := strings.ToLower(z.Identifier.Value)
		if !slices.Contains(r.Hosts, host) {
			return nil, &ended{fmt.Errorf("the issuer asks about %q, which was not ordered", host)}
		}
		all = append(all, pending{url, acme.Question{Host: host, Token: z.Challenges[i].Token, Answer: answer}, z.Challenges[i]})
	}
	return all, nil
}

// prove has gateways answer the challenges of an order, and then the issuer ask.
func (c *Client) prove(ctx context.Context, client *acmelib.Client, r acme.Record, order *acmelib.Order, save func(acme.Record) error) error {
	all, err := questions(ctx, client, r, order)
	if err != nil {
		return err
	}
	asked := make([]acme.Question, len(all))
	for i, p := range all {
		asked[i] = p.question
	}
	if !slices.Equal(asked, r.Questions) {
		if err := save(r.Asked(asked)); err != nil {
			return err
		}
	}
	for _, p := range all {
		if err := c.awaitGateways(ctx, r.Namespace, p.question); err != nil {
			return err
		}
	}
	for _, p := range all {
		if p.challenge.Status == acmelib.StatusPending {
			if _, err := client.Accept(ctx, p.challenge); err != nil {
				return err
			}
		}
		if _, err := client.WaitAuthorization(ctx, p.url); err != nil {
			return err
		}
	}
	return nil
}

// awaitGateways waits until every connected gateway of a namespace that serves the host, at whichever replica, has
// accepted the answer to a question, and a moment longer: one that has just started opens its ports after that.
func (c *Client) awaitGateways(ctx context.Context, namespace string, q acme.Question) error {
	limit, since := time.After(showTimeout), time.Time{}
	for {
		serving, lacking := c.lagging(namespace, q)
		heard, own := map[string]acme.Heard{}, ""
		if c.replicas != nil {
			heard, own = c.replicas.Heard(), c.replicas.Name()
		}
		lacking = acme.Lacking(heard, own, time.Now(), q, serving, lacking)
		switch {
		case len(lacking) > 0:
			since = time.Time{}
		case since.IsZero():
			since = time.Now()
		case time.Since(since) >= settle:
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-limit:
			return fmt.Errorf("%w: %s", errNotShown, strings.Join(lacking[:min(len(lacking), 3)], ", "))
		case <-time.After(showAgain):
		}
	}
}

// laggingStream is a stream of a gateway that has not accepted an answer.
type laggingStream struct {
	namespace, node string
	since           time.Time
	given           bool // it is not waited for any longer
}

// lagging returns how many gateways of this process serve the host of a question, and those of them that have not
// accepted its answer yet. One that has accepted none for waitFor does not count.
func (c *Client) lagging(namespace string, q acme.Question) (serving int, behind []string) {
	m := c.config.Mesh()
	var streams []int64
	for _, p := range c.config.Proxies() {
		if p.Gateway && p.Namespace == namespace && acme.Answers(m, p, q.Host) {
			streams = append(streams, p.Stream)
		}
	}
	if len(streams) == 0 {
		return 0, nil
	}
	not, now := c.config.Lagging(streams, namespace, q.Token), time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, stream := range streams {
		node, is := not[stream]
		if !is {
			serving++
			delete(c.late, stream)
			continue
		}
		of, known := c.late[stream]
		if !known {
			of = laggingStream{namespace, node, now, false}
		}
		if !of.given && now.Sub(of.since) >= waitFor {
			of.given = true
			c.log.Warn("gateway not waited for, it has not accepted the answer to a challenge", "node", node, "host", q.Host, "after", waitFor)
		}
		if c.late[stream] = of; !of.given {
			serving++
			behind = append(behind, node)
		}
	}
	slices.Sort(behind)
	return serving, behind
}

// forgetLate forgets streams that are not there any more.
func (c *Client) forgetLate(connected []model.Proxy) {
	there := map[int64]bool{}
	for _, p := range connected {
		there[p.Stream] = true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.DeleteFunc(c.late, func(stream int64, _ laggingStream) bool { return !there[stream] })
}

// lateLocked returns a note for each place of a set if gateways of its namespace were not waited for.
func (c *Client) lateLocked(s acme.Set) []model.Note {
	var nodes []string
	for _, of := range c.late {
		if of.given && of.namespace == s.Namespace {
			nodes = append(nodes, of.node)
		}
	}
	if len(nodes) == 0 {
		return nil
	}
	slices.Sort(nodes)
	return s.Waits(fmt.Sprintf("gateways have not accepted the answer to a challenge within %s, and are not waited for: %s; "+
		"an issuer that asks one of them refuses the certificate: restart them, or disconnect them", waitFor, strings.Join(nodes[:min(len(nodes), 3)], ", ")))
}

// finish returns the certificate chain of an order whose hosts are proven, DER.
func finish(ctx context.Context, client *acmelib.Client, r acme.Record) ([][]byte, error) {
	order, err := client.WaitOrder(ctx, r.Order)
	if err != nil {
		return nil, err
	}
	if order.Status == acmelib.StatusValid {
		return client.FetchCert(ctx, order.CertURL, true)
	}
	key, err := readKey(r.OrderKey)
	if err != nil {
		return nil, &ended{err}
	}
	request, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{DNSNames: r.Hosts}, key)
	if err != nil {
		return nil, &ended{err}
	}
	chain, _, err := client.CreateOrderCert(ctx, order.FinalizeURL, request, true)
	if err == nil {
		return chain, nil
	}
	// Some issuers do not say in that answer where the order is, which they have begun to fulfil.
	if order, also := client.WaitOrder(ctx, r.Order); also == nil && order.Status == acmelib.StatusValid {
		return client.FetchCert(ctx, order.CertURL, true)
	}
	return nil, err
}

// judge reports why a chain is of no use for a set, and returns it as PEM.
func judge(chain [][]byte, r acme.Record, now time.Time) (leaf *x509.Certificate, text []byte, err error) {
	if leaf, err = x509.ParseCertificate(chain[0]); err != nil {
		return nil, nil, fmt.Errorf("the issuer's certificate cannot be read: %w", err)
	}
	key, err := readKey(r.OrderKey)
	switch {
	case err != nil:
		return nil, nil, err
	case !key.PublicKey.Equal(leaf.PublicKey):
		return nil, nil, errors.New("the issuer's certificate is of another key")
	case !now.Before(leaf.NotAfter):
		return nil, nil, fmt.Errorf("the issuer's certificate has ended at %s", leaf.NotAfter)
	}
	for _, host := range r.Hosts {
		if err := leaf.VerifyHostname(host); err != nil {
			return nil, nil, fmt.Errorf("the issuer's certificate: %w", err)
		}
	}
	for _, der := range chain {
		text = append(text, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})...)
	}
	return leaf, text, nil
}

// ended is the error of a try whose order is of no further use.
type ended struct{ error }

func (e *ended) Unwrap() error { return e.error }

// verdict says what an error of a try means: how long the issuer asks to wait, whether that is a limit of its, and
// whether the order is of no further use.
func verdict(err error, now time.Time) (after time.Duration, limited, over bool) {
	var said *acmelib.Error
	var refused *acmelib.AuthorizationError
	var invalid *acmelib.OrderError
	var end *ended
	switch {
	case errors.As(err, &end), errors.As(err, &refused), errors.As(err, &invalid):
		return 0, false, true
	case errors.As(err, &said):
		after = acme.RetryAfter(said.Header.Get("Retry-After"), now)
		limited = said.StatusCode == http.StatusTooManyRequests || strings.HasSuffix(said.ProblemType, ":rateLimited")
		return after, limited, !limited && said.StatusCode/100 == 4
	}
	return 0, false, false
}

// unknownAccount reports whether an issuer has forgotten the account.
func unknownAccount(err error) bool {
	var said *acmelib.Error
	return errors.As(err, &said) && strings.HasSuffix(said.ProblemType, ":accountDoesNotExist")
}
