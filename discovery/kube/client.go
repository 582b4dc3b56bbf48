package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/connrotation"
	"k8s.io/klog/v2"

	networkingv1 "github.com/pilotlight/pilotlight/discovery/kube/networking"
)

// Client sends requests to one API server. It may be used by several goroutines at once.
type Client struct {
	config *rest.Config
	http   *http.Client
	dialer *dialer
}

// New returns a Client with connections of its own. It sends no request.
func New(config *rest.Config, userAgent string) (*Client, error) {
	dialer := newDialer((&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}).DialContext)
	config = rest.CopyConfig(config)
	config.UserAgent, config.Dial = userAgent, dialer.DialContext
	config.QPS = -1 // no limit: a few watches, and the server has its own limits
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("make a client of the API server: %w", err)
	}
	return &Client{config, client, dialer}, nil
}

// of returns a client of one version of an API, whose types are in known.
func (c *Client) of(version schema.GroupVersion, known *runtime.Scheme, contentTypes string) (*rest.RESTClient, error) {
	own := rest.CopyConfig(c.config)
	own.GroupVersion, own.NegotiatedSerializer = &version, serializer.NewCodecFactory(known).WithoutConversion()
	own.AcceptContentTypes = contentTypes
	if own.APIPath = "/apis"; version.Group == "" {
		own.APIPath = "/api"
	}
	client, err := rest.RESTClientForConfigAndClient(own, c.http)
	if err != nil {
		return nil, fmt.Errorf("make a client of %s: %w", version, err)
	}
	return client, nil
}

// typed returns a client of a version of core, discovery or networking. It reads protobuf, which costs least, else JSON; the
// types of networking have JSON only.
func (c *Client) typed(version schema.GroupVersion) (*rest.RESTClient, error) {
	known := runtime.NewScheme()
	metav1.AddToGroupVersion(known, version)
	if version == networkingv1.Version() {
		networkingv1.AddToScheme(known)
		return c.of(version, known, runtime.ContentTypeJSON)
	}
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, discoveryv1.AddToScheme} {
		if err := add(known); err != nil {
			return nil, fmt.Errorf("know the types of %s: %w", version, err)
		}
	}
	return c.of(version, known, runtime.ContentTypeProtobuf+","+runtime.ContentTypeJSON)
}

// untyped returns a client of objects of any kind.
func (c *Client) untyped(kind schema.GroupVersionKind) (*rest.RESTClient, error) {
	known := runtime.NewScheme()
	metav1.AddToGroupVersion(known, kind.GroupVersion())
	known.AddKnownTypeWithName(kind, &unstructured.Unstructured{})
	known.AddKnownTypeWithName(kind.GroupVersion().WithKind(kind.Kind+"List"), &unstructured.UnstructuredList{})
	return c.of(kind.GroupVersion(), known, runtime.ContentTypeJSON)
}

// Close closes all connections, those in use and those that are being dialled too. The client may be used again.
func (c *Client) Close() { c.dialer.close() }

// dialer knows the connections that it has dialled.
type dialer struct {
	*connrotation.Dialer
	closes atomic.Int64
}

func newDialer(dial connrotation.DialFunc) *dialer {
	return &dialer{Dialer: connrotation.NewDialer(dial)}
}

// DialContext fails if all connections are closed meanwhile: nobody would close this one.
func (d *dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	before := d.closes.Load()
	conn, err := d.Dialer.DialContext(ctx, network, address)
	if err == nil && d.closes.Load() != before {
		conn.Close()
		return nil, net.ErrClosed
	}
	return conn, err
}

func (d *dialer) close() {
	d.closes.Add(1)
	d.CloseAll()
}

// Minor requests the server's version, and returns its second number: 36 of 1.36.3.
func (c *Client) Minor(ctx context.Context) (int, error) {
	client, err := c.typed(corev1.SchemeGroupVersion)
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	data, err := client.Get().AbsPath("/version").MaxRetries(0).Do(ctx).Raw()
	if err != nil {
		return 0, fmt.Errorf("ask for the version of the API server: %w", err)
	}
	var answer struct{ Major, Minor string }
	if err := json.Unmarshal(data, &answer); err != nil {
		return 0, fmt.Errorf("ask for the version of the API server: %w", err)
	}
	minor, err := strconv.Atoi(strings.TrimRight(answer.Minor, "+"))
	if err != nil || answer.Major != "1" {
		return 0, fmt.Errorf("the version of the API server is %.20s.%.20s, want 1.N", answer.Major, answer.Minor)
	}
	return minor, nil
}

// LogTo makes client-go, which has one log for a whole process, write to log, at the level debug. Errors that matter
// are also returned to this package; the others are requests that were cancelled. Only the first call of a process has an
// effect: a goroutine that client-go has left behind may read its log at any time.
func LogTo(log *slog.Logger) {
	if _, set := logr.ToSlogHandler(klog.Background()).(quiet); !set {
		klog.SetSlogLogger(slog.New(quiet{log.Handler()}))
	}
}

// quiet lowers every level to debug.
type quiet struct{ slog.Handler }

func (q quiet) Enabled(ctx context.Context, _ slog.Level) bool {
	return q.Handler.Enabled(ctx, slog.LevelDebug)
}

func (q quiet) Handle(ctx context.Context, r slog.Record) error {
	r.Level = slog.LevelDebug
	return q.Handler.Handle(ctx, r)
}

func (q quiet) WithAttrs(attrs []slog.Attr) slog.Handler { return quiet{q.Handler.WithAttrs(attrs)} }
func (q quiet) WithGroup(name string) slog.Handler       { return quiet{q.Handler.WithGroup(name)} }
