package cloudfoundry

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// message is the body of router.register and router.unregister, with the field names that gorouter reads.
type message struct {
	URIs             []string          `json:"uris"`
	Host             string            `json:"host"`
	Port             int64             `json:"port"`
	TLSPort          int64             `json:"tls_port"`
	ServerName       string            `json:"server_cert_domain_san"`
	App              string            `json:"app"`
	InstanceID       string            `json:"private_instance_id"`
	InstanceIndex    string            `json:"private_instance_index"`
	Protocol         string            `json:"protocol"`
	StaleThreshold   int64             `json:"stale_threshold_in_seconds"`
	AvailabilityZone string            `json:"availability_zone"`
	Tags             map[string]string `json:"tags"`
	RouteServiceURL  string            `json:"route_service_url"`
	Options          struct {
		LoadBalancing string `json:"loadbalancing"`
	} `json:"options"`
}

// read decodes a message. With an error it also returns the fields that could be read: they may name the routes of the
// message.
func read(data []byte) (m message, err error) {
	if err := json.Unmarshal(data, &m); err != nil {
		return m, fmt.Errorf("is no registration: %w", err)
	}
	if len(m.URIs) == 0 {
		return m, errors.New("uris is missing: want the hosts of the route")
	}
	return m, nil
}

// publisher returns a name of the instance that a message announces, as far as the message has one.
func (m message) publisher() string {
	return clip(cmp.Or(m.InstanceID, m.Host+":"+strconv.FormatInt(cmp.Or(m.TLSPort, m.Port), 10)))
}

// instance is one address to which a route leads.
type instance struct {
	address    string
	port       uint32
	tls        bool   // it accepts TLS, and is never pruned
	serverName string // in its certificate, "" for plain text
	protocol   model.Protocol
	labels     map[string]string
	zone       string
	omitted    int           // tags that are left out
	balancing  string        // the setting of the route; not served
	stale      time.Duration // how long it is kept unless it is announced again; 0 for ever
	updated    time.Time
}

// place identifies an instance within its route, as gorouter does.
func (i instance) place() string { return i.address + ":" + strconv.FormatUint(uint64(i.port), 10) }

// Labels made from Cloud Foundry's own fields, in addition to those made from tags.
const (
	labelApp      = "cloudfoundry.org/app"
	labelInstance = "cloudfoundry.org/instance"
	labelIndex    = "cloudfoundry.org/index"
	labelTLS      = "cloudfoundry.org/tls"
)

// instance returns the instance that the message announces. Its maximum age is that of the table; a message can only
// shorten it.
func (m message) instance(threshold time.Duration) (instance, error) {
	address, err := netip.ParseAddr(m.Host)
	if err != nil {
		return instance{}, fmt.Errorf("host is %q, want an IP address", clip(m.Host))
	}
	if err := m.bounded(); err != nil {
		return instance{}, err
	}
	i := instance{
		address: address.Unmap().String(), stale: threshold, zone: m.AvailabilityZone, balancing: clip(m.Options.LoadBalancing), protocol: model.HTTP,
	}
	field, port := "port", m.Port
	if m.TLSPort != 0 {
		field, port, i.tls, i.stale, i.serverName = "tls_port", m.TLSPort, true, 0, m.ServerName
	}
	if port < 1 || port > 65535 {
		return instance{}, fmt.Errorf("%s is %d, want a port from 1 to 65535", field, port)
	}
	i.port = uint32(port)
	if own := m.StaleThreshold; !i.tls && own > 0 && own < int64(threshold/time.Second) {
		i.stale = time.Duration(own) * time.Second
	}
	switch m.Protocol {
	case "", "http1":
	case "http2":
		i.protocol = model.HTTP2
	default:
		return instance{}, fmt.Errorf("protocol is %q, want http1 or http2", clip(m.Protocol))
	}
	if m.RouteServiceURL != "" {
		return instance{}, fmt.Errorf("route_service_url is %q, which is not served: requests would get past that service, so the instance is left out",
			clip(m.RouteServiceURL))
	}
	i.labels, i.omitted = m.labels(i.tls)
	return i, nil
}

// bounded returns an error about a field that is too long for a label or a name.
func (m message) bounded() error {
	for _, field := range []struct{ name, value string }{
		{"server_cert_domain_san", m.ServerName},
		{"app", m.App},
		{"private_instance_id", m.InstanceID},
		{"private_instance_index", m.InstanceIndex},
		{"availability_zone", m.AvailabilityZone},
	} {
		if len(field.value) > model.MaxLabel {
			return fmt.Errorf("%s has %d bytes, want at most %d", field.name, len(field.value), model.MaxLabel)
		}
	}
	return nil
}

// labels returns the tags of the message and what it says about its instance, and how many tags are left out.
func (m message) labels(tls bool) (out map[string]string, omitted int) {
	out, omitted = model.BoundLabels(m.Tags)
	set := func(name, value string) {
		if value == "" {
			return
		}
		if out == nil {
			out = map[string]string{}
		}
		out[name] = value
	}
	set(labelApp, m.App)
	set(labelInstance, m.InstanceID)
	set(labelIndex, m.InstanceIndex)
	if tls {
		set(labelTLS, "true")
	}
	return out, omitted
}

// hostPattern is a DNS name, of which the first label may be a wildcard.
var hostPattern = regexp.MustCompile(`^(\*\.)?[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?)*$`)

// maxURIs is how many routes of a message are read.
const maxURIs = 256

// maxURI is how many bytes of a route's name are kept.
const maxURI = 512

// parseURI reads a route's name, in lower case. A route with a path is a separate route, and is not served: another
// application may have the host itself.
func parseURI(uri string) (string, error) {
	name := strings.TrimSuffix(strings.ToLower(uri), "/")
	if len(name) > maxURI {
		return clip(name), fmt.Errorf("has %d bytes, want at most %d", len(name), maxURI)
	}
	host, path, below := strings.Cut(name, "/")
	if len(host) > 253 || !hostPattern.MatchString(host) {
		return name, errors.New("is no host name: want one such as shop.example.com or *.example.com")
	}
	if below {
		return name, fmt.Errorf("has the path /%s, which is not served: want a host of its own, or a VirtualService that routes the path to one", path)
	}
	return host, nil
}

// maxText is how many bytes of a publisher's text are repeated.
const maxText = 200

func clip(text string) string {
	if len(text) <= maxText {
		return text
	}
	return strings.ToValidUTF8(text[:maxText], "") + "…"
}

// startMessage requests that publishers announce everything, and sets how often they do so from then on. It is the body
// of router.start, and the answer to router.greet.
func startMessage(id string, hosts []string, interval, threshold time.Duration) []byte {
	data, err := json.Marshal(struct {
		ID        string   `json:"id"`
		Hosts     []string `json:"hosts"`
		Interval  int      `json:"minimumRegisterIntervalInSeconds"`
		Threshold int      `json:"pruneThresholdInSeconds"`
	}{id, hosts, max(1, int(interval.Seconds())), max(1, int(threshold.Seconds()))})
	if err != nil {
		panic(err) // values of these types can always be encoded
	}
	return data
}

// mayAnswer reports whether the reply subject of a greeting is allowed. No other client may make this program publish
// on subjects that other routers, or the broker itself, read.
func mayAnswer(reply string) bool {
	return reply != "" && !strings.HasPrefix(reply, "router.") && !strings.HasPrefix(reply, "$")
}
