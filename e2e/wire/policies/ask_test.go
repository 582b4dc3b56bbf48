//go:build wire

package policies

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

const metadataTLV = 0xE0 // of the PROXY protocol: the one value of metadata that a connection can bring

// client asks the listeners of a judge.
type client struct {
	roots *lab.Authority
	peers map[string]string // the loopback address that stands for the address of a peer

	mutex      sync.Mutex
	identities map[string]*tls.Certificate
}

// connection is what requests must have in common to share one.
type connection struct {
	port                                        int
	peer, source, address, principal, name, tlv string
	to                                          uint32
}

func (c *client) connectionOf(a asking, port int, tcp bool) connection {
	key := connection{
		port: port, peer: a.text("peer"), source: a.text("remote"), address: a.text("address"),
		principal: a.text("principal"), name: a.text("server name"), to: plain["port"].(uint32),
	}
	if n, ok := a["port"].(uint32); ok {
		key.to = n
	}
	if mixed := is4(key.source) != is4(key.address); mixed && tcp { // no connection is: both are of IPv6
		if is4(key.source) {
			key.source = "2001:db8::9"
		} else {
			key.address = "2001:db8::9"
		}
	} else if mixed { // x-forwarded-for says the client's
		key.source = key.address
	}
	if tcp {
		key.tlv = strings.Join(texts(a["metadata envoy.filters.a.b"+separator+"c"]), "")
	}
	return key
}

func is4(address string) bool { return netip.MustParseAddr(address).Is4() }

// texts returns a value as a list.
func texts(value any) []string {
	switch v := value.(type) {
	case string:
		return []string{v}
	case []string:
		return v
	}
	return nil
}

// ask returns what a listener answers to each request.
func (c *client) ask(all []asking, port int, tcp bool) (answers []string, err error) {
	answers = make([]string, len(all))
	order, byConnection := []connection{}, map[connection][]int{}
	for i, a := range all {
		key := c.connectionOf(a, port, tcp)
		if byConnection[key] == nil {
			order = append(order, key)
		}
		byConnection[key] = append(byConnection[key], i)
	}
	for _, key := range order {
		var conn net.Conn
		var reader *bufio.Reader
		for _, i := range byConnection[key] {
			if conn == nil {
				if conn, err = c.dial(key); err != nil {
					return nil, fmt.Errorf("%+v: %w", key, err)
				}
				reader = bufio.NewReader(conn)
			}
			var kept bool
			if answers[i], kept, err = exchange(conn, reader, all[i], key); err != nil {
				return nil, fmt.Errorf("%v: %w", all[i], err)
			}
			if tcp || !kept {
				conn.Close()
				conn = nil
			}
		}
		if conn != nil {
			conn.Close()
		}
	}
	return answers, nil
}

// exchange sends a request, and returns Envoy's answer in words; kept is false if the connection is at its end.
func exchange(conn net.Conn, reader *bufio.Reader, a asking, key connection) (said string, kept bool, err error) {
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		return "", false, err
	}
	if _, err := io.WriteString(conn, a.request(key)); err != nil {
		return "closed", false, nil
	}
	answer, err := http.ReadResponse(reader, nil)
	switch {
	case err != nil && strings.Contains(err.Error(), "timeout"):
		return "", false, err
	case err != nil:
		return "closed", false, nil
	}
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		return "", false, err
	}
	seen := strings.Split(answer.Header.Get("x-seen"), ";")
	for i, of := range seen {
		name, value, _ := strings.Cut(of, "=")
		seen[i] = name + "=" + plainName(value)
	}
	slices.Sort(seen)
	return fmt.Sprintf("%d %s %s", answer.StatusCode, body, strings.Join(seen, ";")), !answer.Close, nil
}

// request writes the request. What no client can send is in x-lua, for the script told.
func (a asking) request(key connection) string {
	var text, code strings.Builder
	text.WriteString("GET / HTTP/1.1\r\nhost: web.test\r\n")
	metadata := map[string]map[string]any{} // by filter
	for about, value := range a {
		kind, name, _ := strings.Cut(about, " ")
		switch {
		case about == "path":
			fmt.Fprintf(&code, "h:headers():replace(':path', %s) ", luaText(value.(string)))
		case kind == "header" && name[0] == ':':
			fmt.Fprintf(&code, "h:headers():replace('%s', %s) ", name, luaText(value.([]string)[0]))
		case kind == "header":
			for _, v := range value.([]string) {
				fmt.Fprintf(&text, "%s: %s\r\n", name, v)
			}
		case kind == "metadata":
			place := strings.Split(name, separator)
			if metadata[place[0]] == nil {
				metadata[place[0]] = map[string]any{}
			}
			put(metadata[place[0]], place[1:], value)
		}
	}
	for filter, values := range metadata {
		for key, value := range values {
			fmt.Fprintf(&code, "h:streamInfo():dynamicMetadata():set(%s, %s, %s) ", luaText(filter), luaText(key), luaValue(value))
		}
	}
	if code.Len() > 0 {
		fmt.Fprintf(&text, "x-lua: %s\r\n", code.String())
	}
	if remote := a.text("remote"); remote != key.source {
		fmt.Fprintf(&text, "x-forwarded-for: %s\r\n", remote)
	}
	return text.String() + "\r\n"
}

func put(into map[string]any, place []string, value any) {
	for ; len(place) > 1; place = place[1:] {
		next, _ := into[place[0]].(map[string]any)
		if next == nil {
			next = map[string]any{}
			into[place[0]] = next
		}
		into = next
	}
	into[place[0]] = value
}

func luaText(text string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(text) + `"`
}

func luaValue(value any) string {
	var parts []string
	switch v := value.(type) {
	case string:
		return luaText(v)
	case []string:
		for _, text := range v {
			parts = append(parts, luaText(text))
		}
	case map[string]any:
		for key, inner := range v {
			parts = append(parts, "["+luaText(key)+"]="+luaValue(inner))
		}
	}
	return "{" + strings.Join(parts, ",") + "}"
}

// dial connects as a peer, and says by the PROXY protocol whose connection it is, and where to.
func (c *client) dial(key connection) (net.Conn, error) {
	to, from := "127.0.0.1", c.peers[key.peer]
	if from == "::1" {
		to = "::1"
	}
	dialer := net.Dialer{Timeout: lab.StopLimit, LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	conn, err := dialer.Dial("tcp", net.JoinHostPort(to, fmt.Sprint(key.port)))
	if err != nil {
		return nil, err
	}
	if _, err := conn.Write(proxyHeader(key)); err != nil {
		return nil, err
	}
	if key.principal == "" && key.name == "" {
		return conn, nil
	}
	config := &tls.Config{InsecureSkipVerify: true, ServerName: key.name} // the test is not about the server
	if key.principal != "" {
		identity, err := c.identity(key.principal)
		if err != nil {
			return nil, err
		}
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return identity, nil }
	}
	return tls.Client(conn, config), nil
}

// proxyHeader is the header of version 2 of the PROXY protocol.
func proxyHeader(key connection) []byte {
	source, address := netip.MustParseAddr(key.source), netip.MustParseAddr(key.address)
	family := byte(0x11)
	if !source.Is4() {
		family = 0x21
	}
	rest := append(source.AsSlice(), address.AsSlice()...)
	rest = binary.BigEndian.AppendUint16(rest, 4321)
	rest = binary.BigEndian.AppendUint16(rest, uint16(key.to))
	if key.tlv != "" {
		rest = binary.BigEndian.AppendUint16(append(rest, metadataTLV), uint16(len(key.tlv)))
		rest = append(rest, key.tlv...)
	}
	header := append([]byte("\r\n\r\n\x00\r\nQUIT\n"), 0x21, family)
	return append(binary.BigEndian.AppendUint16(header, uint16(len(rest))), rest...)
}

// identity returns a certificate for a principal, even for one that is no URI.
func (c *client) identity(principal string) (*tls.Certificate, error) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if found := c.identities[principal]; found != nil {
		return found, nil
	}
	id, err := c.roots.IssueWith("spiffe://client", int64(3+len(c.identities)), func(of *x509.Certificate) {
		of.URIs = []*url.URL{{Scheme: "spiffe", Opaque: strings.TrimPrefix(principal, "spiffe:")}}
	})
	if err != nil {
		return nil, err
	}
	chain, _ := pem.Decode(id.Chain)
	private, _ := pem.Decode(id.Key)
	key, err := x509.ParsePKCS8PrivateKey(private.Bytes)
	if err != nil {
		return nil, err
	}
	c.identities[principal] = &tls.Certificate{Certificate: [][]byte{chain.Bytes}, PrivateKey: key}
	return c.identities[principal], nil
}
