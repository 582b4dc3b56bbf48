package probe

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
)

// ask calls grpc.health.v1.Health/Check. A gRPC message is five bytes, with the compression flag and the length, and
// then protobuf; the call is an HTTP/2 POST whose trailer has the status.
func (g *GRPC) ask(ctx context.Context, at []string) (code int, text string, err error) {
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{
		Protocols: protocols, DisableKeepAlives: true, DisableCompression: true,
		DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
			_, port, _ := net.SplitHostPort(address)
			return DialFirst(ctx, at, port)
		},
	}
	defer transport.CloseIdleConnections()
	target := "http://" + net.JoinHostPort("localhost", strconv.Itoa(int(g.Port))) + "/grpc.health.v1.Health/Check"
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, target, bytes.NewReader(healthRequest(g.Service)))
	if err != nil {
		return 0, "", err
	}
	request.Header.Set("Content-Type", "application/grpc")
	request.Header.Set("TE", "trailers")
	response, body, err := answerOf(transport, request)
	if err != nil {
		return 0, "", err
	}
	return g.judge(response, body)
}

// judge reads the call's status from the trailer, or from the header if there is no message; then the message.
func (g *GRPC) judge(response *http.Response, body []byte) (code int, text string, err error) {
	status, message := response.Trailer.Get("Grpc-Status"), response.Trailer.Get("Grpc-Message")
	if status == "" {
		status, message = response.Header.Get("Grpc-Status"), response.Header.Get("Grpc-Message")
	}
	if plain, err := url.PathUnescape(message); err == nil {
		message = plain
	}
	const ok, notFound, unimplemented = "0", "5", "12"
	switch {
	case response.StatusCode != http.StatusOK:
		return 0, "", fmt.Errorf("the application answers %s, want gRPC", response.Status)
	case status == "":
		return 0, "", fmt.Errorf("the application's answer has no grpc-status, want gRPC")
	case status == notFound:
		return 0, "", fmt.Errorf("the application does not know service %q", g.Service)
	case status == unimplemented:
		return 0, "", fmt.Errorf("the application has no grpc.health.v1.Health")
	case status != ok:
		return 0, "", fmt.Errorf("grpc-status %s: %s", status, message)
	}
	serving, err := healthStatus(body)
	if err != nil {
		return 0, "", fmt.Errorf("read the application's answer: %w", err)
	}
	if serving != "SERVING" {
		return http.StatusServiceUnavailable, serving, nil
	}
	return http.StatusOK, serving, nil
}

// frameHead is the number of bytes before a message.
const frameHead = 5

// healthRequest is a HealthCheckRequest in its frame: field 1 is the service, a string.
func healthRequest(service string) []byte {
	var message []byte
	if service != "" {
		message = binary.AppendUvarint([]byte{1<<3 | 2}, uint64(len(service)))
		message = append(message, service...)
	}
	return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message))), message...)
}

// healthStatus parses a HealthCheckResponse in its frame: field 1 is the status, a varint; 0 is not encoded.
func healthStatus(frame []byte) (string, error) {
	const one = "%d bytes are not one message of gRPC that is not compressed"
	if len(frame) < frameHead || frame[0] != 0 {
		return "", fmt.Errorf(one, len(frame))
	}
	if length := binary.BigEndian.Uint32(frame[1:]); int64(length) != int64(len(frame)-frameHead) {
		return "", fmt.Errorf(one, len(frame))
	}
	status := uint64(0)
	for message := frame[frameHead:]; len(message) > 0; {
		tag, n := binary.Uvarint(message)
		if n <= 0 || tag != 1<<3 {
			return "", fmt.Errorf("field %d is none of a HealthCheckResponse", tag>>3)
		}
		value, m := binary.Uvarint(message[n:])
		if m <= 0 {
			return "", fmt.Errorf("status is cut short")
		}
		status, message = value, message[n+m:]
	}
	names := []string{"UNKNOWN", "SERVING", "NOT_SERVING", "SERVICE_UNKNOWN"}
	if status >= uint64(len(names)) {
		return "", fmt.Errorf("status %d is none of a HealthCheckResponse", status)
	}
	return names[status], nil
}
