package bootstrap

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/netip"
	"strconv"
	"text/template"
	"time"

	"github.com/pilotlight/pilotlight/node"
	"github.com/pilotlight/pilotlight/templates"
)

// Params is all that a bootstrap depends on. It has no admin: each epoch has its own, which is merged over it.
type Params struct {
	Node           node.ID
	Cluster        string // the service that the workload belongs to: Envoy's node.cluster
	Metadata       node.Metadata
	DiscoveryHost  string // DNS name or IP address of the ADS server
	DiscoveryPort  int
	ConnectTimeout time.Duration // to the ADS server
}

// DiscoveryIsIP reports whether Envoy needs no DNS to reach discovery.
func (p Params) DiscoveryIsIP() bool {
	_, err := netip.ParseAddr(p.DiscoveryHost)
	return err == nil
}

// Render returns the bootstrap of the node's role, as indented JSON.
func Render(p Params) ([]byte, error) {
	if err := p.Node.Validate(); err != nil {
		return nil, fmt.Errorf("render bootstrap: node: %w", err)
	}
	text, err := templateOf(p.Node.Role)
	if err != nil {
		return nil, fmt.Errorf("render bootstrap: %w", err)
	}
	return render(text, p)
}

func templateOf(role node.Role) (string, error) {
	if role == node.Sidecar {
		return templates.Sidecar, nil
	}
	return "", fmt.Errorf("role %s: has no bootstrap yet, only sidecar has", role)
}

func render(text string, p Params) ([]byte, error) {
	t, err := template.New("bootstrap").Funcs(template.FuncMap{
		"json":    marshal,
		"seconds": seconds,
	}).Parse(text)
	if err != nil {
		return nil, fmt.Errorf("parse bootstrap template: %w", err)
	}
	var rendered, indented bytes.Buffer
	if err := t.Execute(&rendered, p); err != nil {
		return nil, fmt.Errorf("render bootstrap: %w", err)
	}
	if err := json.Indent(&indented, rendered.Bytes(), "", "  "); err != nil {
		return nil, fmt.Errorf("parse rendered bootstrap: %w", err)
	}
	return indented.Bytes(), nil
}

func marshal(value any) (string, error) {
	text, err := json.Marshal(value)
	return string(text), err
}

// seconds formats a duration as protobuf's JSON does: "1.5s".
func seconds(d time.Duration) string {
	return strconv.FormatFloat(d.Seconds(), 'f', -1, 64) + "s"
}
