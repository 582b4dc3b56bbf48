package explain

import (
	"net/netip"
	"strconv"
	"strings"

	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
)

// Request is a request as a program sends it to its proxy.
type Request struct {
	To     netip.AddrPort // to which the program connects
	Host   string         // its authority, with a port unless it is the scheme's
	Method string         // GET where it is ""
	Path   string         // with its query; "/" where it is ""
	Header map[string][]string
	TCP    bool // its bytes are not HTTP
	TLS    bool // it is inside of TLS that the program begins, with the server name of Host and ALPN of HTTP/1.1
	Whole  bool // it has a whole URL, as to an HTTP proxy

	ended  bool   // the TLS that the program began ends at the proxy
	scheme string // by which it came to the first proxy; "" where this one does not know that
}

// normal returns the request as Envoy's connection manager passes it on.
func (r Request) normal(stripDot bool) Request {
	if r.Method == "" {
		r.Method = "GET"
	}
	if r.Path == "" {
		r.Path = "/"
	}
	if stripDot {
		host, port := splitPort(r.Host)
		r.Host = strings.TrimSuffix(host, ".") + port
	}
	header := map[string][]string{}
	for name, values := range r.Header {
		header[strings.ToLower(name)] = append(header[strings.ToLower(name)], values...)
	}
	r.Header = header
	return r
}

// header returns the value of a header as Envoy compares it: those of one name joined, and the pseudo headers.
func (r Request) header(name string) (string, bool) {
	switch name = strings.ToLower(name); name {
	case ":authority", "host":
		return r.Host, true
	case ":method":
		return r.Method, true
	case ":path":
		return r.Path, true
	case ":scheme":
		if r.Whole || r.scheme == "" {
			return "http", true
		}
		return r.scheme, true
	}
	values, ok := r.Header[name]
	return strings.Join(values, ","), ok
}

// schemeAt returns the scheme of a request at a connection manager: that of x-forwarded-proto where clients are trusted to say it, else that of the connection.
func (r Request) schemeAt(m *hcmv3.HttpConnectionManager) string {
	said, _ := r.header("x-forwarded-proto")
	switch trusted := !m.UseRemoteAddress.GetValue() || m.XffNumTrustedHops > 0; {
	case trusted && (said == "http" || said == "https"):
		return said
	case r.ended:
		return "https"
	}
	return "http"
}

// isGRPC reports whether Envoy takes a request for one of gRPC.
func (r Request) isGRPC() bool {
	rest, found := strings.CutPrefix(strings.Join(r.Header["content-type"], ","), "application/grpc")
	return found && (rest == "" || rest[0] == '+')
}

// bare returns the path without its query.
func (r Request) bare() string {
	path, _, _ := strings.Cut(r.Path, "?")
	path, _, _ = strings.Cut(path, "#")
	return path
}

// query returns the first value of a parameter, as it is written.
func (r Request) query(name string) (string, bool) {
	_, query, _ := strings.Cut(r.Path, "?")
	query, _, _ = strings.Cut(query, "#")
	for part := range strings.SplitSeq(query, "&") {
		if key, value, _ := strings.Cut(part, "="); key == name && part != "" {
			return value, true
		}
	}
	return "", false
}

// splitPort splits "host:port" into host and ":port", which is "" where there is none. An IPv6 address is in brackets.
func splitPort(authority string) (host, port string) {
	at := strings.LastIndexByte(authority, ':')
	if at < 0 || at < strings.LastIndexByte(authority, ']') {
		return authority, ""
	}
	for _, c := range authority[at+1:] {
		if c < '0' || c > '9' {
			return authority, ""
		}
	}
	return authority[:at], authority[at:]
}

// pathAt returns a path as a connection manager's filters and routes read it. The query stays as it is.
func pathAt(m *hcmv3.HttpConnectionManager, path string) string {
	bare, query, asked := strings.Cut(path, "?")
	if m.PathWithEscapedSlashesAction == hcmv3.HttpConnectionManager_UNESCAPE_AND_FORWARD {
		bare = slashes.Replace(bare)
	}
	if m.GetNormalizePath().GetValue() {
		bare = normalPath(bare)
	}
	if m.MergeSlashes {
		bare = merged(bare)
	}
	if asked {
		return bare + "?" + query
	}
	return bare
}

// merged makes one slash of several, as merge_slashes does: a path of nothing but slashes has two of them then.
func merged(path string) string {
	if !strings.Contains(path, "//") {
		return path
	}
	var b strings.Builder
	if path[0] == '/' {
		b.WriteByte('/')
	}
	b.WriteString(strings.Join(strings.FieldsFunc(path, func(r rune) bool { return r == '/' }), "/"))
	if strings.HasSuffix(path, "/") {
		b.WriteByte('/')
	}
	return b.String()
}

// slashes decodes those that are escaped.
var slashes = strings.NewReplacer("%2F", "/", "%2f", "/", "%5C", "\\", "%5c", "\\")

// normalPath removes dot segments and decodes what needs no escape, as normalize_path does. Slashes are not merged, and the query
// stays as it is.
func normalPath(path string) string {
	bare, query, asked := strings.Cut(path, "?")
	var out []string
	parts := strings.Split(strings.ReplaceAll(unescaped(bare), "\\", "/"), "/")
	for i, part := range parts {
		last := i == len(parts)-1
		switch part {
		case ".":
			if last {
				out = append(out, "")
			}
		case "..":
			if len(out) > 1 {
				out = out[:len(out)-1]
			}
			if last {
				out = append(out, "")
			}
		default:
			out = append(out, part)
		}
	}
	if bare = strings.Join(out, "/"); !strings.HasPrefix(bare, "/") {
		bare = "/" + bare
	}
	if asked {
		return bare + "?" + query
	}
	return bare
}

// unescaped decodes the escapes of characters that RFC 3986 calls unreserved.
func unescaped(path string) string {
	var b strings.Builder
	for i := 0; i < len(path); i++ {
		if path[i] == '%' && i+2 < len(path) {
			if n, err := strconv.ParseUint(path[i+1:i+3], 16, 8); err == nil && unreserved(byte(n)) {
				b.WriteByte(byte(n))
				i += 2
				continue
			}
		}
		b.WriteByte(path[i])
	}
	return b.String()
}

func unreserved(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("-._~", c) >= 0
}
