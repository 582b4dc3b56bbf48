package status

import (
	"context"
	"net/http"
	"strconv"
	"time"
)

// ServeHTTP probes the application and returns the result.
func (p Probes) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	probe, known := p[r.URL.Path]
	switch {
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		plain(w, http.StatusMethodNotAllowed, r.Method+": want GET")
		return
	case !known:
		plain(w, http.StatusNotFound, r.URL.Path+": the application has no such probe")
		return
	}
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(probe.Timeout + writeGrace))
	ctx, cancel := context.WithTimeout(r.Context(), probe.Timeout)
	defer cancel()
	code, text, err := probe.ask(ctx, r.UserAgent())
	if err != nil {
		code, text = http.StatusInternalServerError, err.Error()
	}
	plain(w, code, text)
}

// ask returns the status for the kubelet, and a text that the kubelet may show.
func (p Probe) ask(ctx context.Context, userAgent string) (code int, text string, err error) {
	switch {
	case p.HTTPGet != nil:
		return p.HTTPGet.ask(ctx, reach(p.HTTPGet.Host, p.Own), userAgent)
	case p.TCPSocket != nil:
		conn, err := dialFirst(ctx, reach(p.TCPSocket.Host, p.Own), strconv.Itoa(int(p.TCPSocket.Port)))
		if err != nil {
			return 0, "", err
		}
		return http.StatusOK, "connected", conn.Close()
	}
	return p.GRPC.ask(ctx, reach("", p.Own))
}
