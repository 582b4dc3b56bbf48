package ads

import (
	"bytes"
	"io"
	"net"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// rawClient is a client of HTTP/2 that sends any frames for a test, also invalid ones that no library would send.
type rawClient struct {
	*http2.Framer
	net.Conn
	next uint32 // stream
}

// dialRaw connects and sends the preface. on is called with each frame, and a client of its own for answers, until the connection
// ends, when done is closed; it may be nil.
func (r *running) dialRaw(on func(c *rawClient, f http2.Frame)) (c *rawClient, done <-chan struct{}) {
	r.t.Helper()
	conn, err := r.listener.Dial()
	if err != nil {
		r.t.Fatal(err)
	}
	return newRawClient(r.t, conn, on)
}

func newRawClient(t *testing.T, conn net.Conn, on func(c *rawClient, f http2.Frame)) (*rawClient, <-chan struct{}) {
	t.Helper()
	c, done := &rawClient{http2.NewFramer(conn, conn), conn, 1}, make(chan struct{})
	t.Cleanup(func() { conn.Close(); <-done })
	if _, err := io.WriteString(conn, http2.ClientPreface); err == nil { // else the server has closed it already
		_ = c.WriteSettings()
	}
	answers := &rawClient{http2.NewFramer(conn, conn), conn, 1} // a Framer is for one goroutine
	go func() {
		defer close(done)
		for {
			f, err := answers.ReadFrame()
			if err != nil {
				return
			}
			if settings, ok := f.(*http2.SettingsFrame); ok && !settings.IsAck() {
				_ = answers.WriteSettingsAck()
			}
			if on != nil {
				on(answers, f)
			}
		}
	}()
	return c, done
}

// pong answers a ping.
func (c *rawClient) pong(f http2.Frame) {
	if ping, ok := f.(*http2.PingFrame); ok && !ping.IsAck() {
		_ = c.WritePing(true, ping.Data)
	}
}

// open begins a stream of ADS, and sends no request on it.
func (c *rawClient) open() {
	var head bytes.Buffer
	encoder := hpack.NewEncoder(&head)
	for _, field := range [][2]string{
		{":method", "POST"},
		{":scheme", "http"},
		{":path", adsPath + "StreamAggregatedResources"},
		{":authority", "x"},
		{"content-type", "application/grpc"},
		{"te", "trailers"},
	} {
		_ = encoder.WriteField(hpack.HeaderField{Name: field[0], Value: field[1]})
	}
	_ = c.WriteHeaders(http2.HeadersFrameParam{StreamID: c.next, BlockFragment: head.Bytes(), EndHeaders: true})
	c.next += 2
}
