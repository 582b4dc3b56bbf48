package frame

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"
)

// The status codes of gRPC that are used here.
const (
	OK                = "0"
	InvalidArgument   = "3"
	ResourceExhausted = "8"
	Unimplemented     = "12"
	Unavailable       = "14"
)

// HeadSize is the size of a message's head: a byte that is 1 if the message is compressed, and four bytes of length.
const HeadSize = 5

// ReadHead reads the head of a message of at most that many bytes, and returns the message's size. At the end of the
// stream the error is io.EOF.
func ReadHead(from io.Reader, most int) (size int, err error) {
	var head [HeadSize]byte
	if _, err := io.ReadFull(from, head[:]); err != nil {
		return 0, err
	}
	length := binary.BigEndian.Uint32(head[1:])
	if head[0] != 0 || int64(length) > int64(most) {
		return 0, fmt.Errorf("a message of %d bytes, compressed %d: want at most %d and 0", length, head[0], most)
	}
	return int(length), nil
}

// Head returns the head of a message of a size.
func Head(size int) []byte {
	return binary.BigEndian.AppendUint32([]byte{0}, uint32(size))
}

// Read reads a message of at most that many bytes. At the end of the stream the error is io.EOF.
func Read(from io.Reader, most int) ([]byte, error) {
	size, err := ReadHead(from, most)
	if err != nil {
		return nil, err
	}
	message := make([]byte, size)
	if _, err := io.ReadFull(from, message); err != nil {
		return nil, fmt.Errorf("a message ends early: %v", err)
	}
	return message, nil
}

// Write writes a message with its head.
func Write(to io.Writer, message []byte) error {
	_, err := to.Write(append(Head(len(message)), message...))
	return err
}

// NewServer returns an HTTP server with HTTP/2 without TLS, of at most that many streams a connection. The listener's socket
// must be accessible to the agent's own user only, since clients are not authenticated.
func NewServer(handler http.Handler, streams int, log *slog.Logger) *http.Server {
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	return &http.Server{
		Handler: handler, Protocols: protocols, ReadHeaderTimeout: 10 * time.Second,
		HTTP2:       &http.HTTP2Config{MaxConcurrentStreams: streams},
		ErrorLog:    slog.NewLogLogger(log.Handler(), slog.LevelDebug),
		BaseContext: func(net.Listener) context.Context { return context.Background() },
	}
}

// Accept begins the answer to a call of gRPC. It refuses every other request, and returns false.
func Accept(w http.ResponseWriter, r *http.Request) bool {
	if r.Method != http.MethodPost || r.ProtoMajor != 2 || !strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc") {
		http.Error(w, "this is a gRPC server", http.StatusUnsupportedMediaType)
		return false
	}
	w.Header().Set("Content-Type", "application/grpc")
	return true
}

// End writes the status of a call as trailers.
func End(w http.ResponseWriter, code string, err error) {
	w.Header().Set(http.TrailerPrefix+"Grpc-Status", code)
	if err != nil {
		w.Header().Set(http.TrailerPrefix+"Grpc-Message", strings.Map(printable, err.Error()))
	}
}

// printable drops characters that a header must not contain, and %, which begins an escape in gRPC.
func printable(r rune) rune {
	if r < ' ' || r > '~' || r == '%' {
		return -1
	}
	return r
}
