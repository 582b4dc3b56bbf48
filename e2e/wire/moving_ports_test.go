//go:build wire

package wire

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// further is a port of a mover beside that of HTTP: one of gRPC, or of TCP, where the client speaks first, or the server.
type further struct {
	number         int // of the service
	name, protocol string
	port, program  int                                              // of the sidecar, and behind it
	ask            func(at, host string) (answer string, err error) // asks a listener for the service of a host
}

// furtherPorts starts the programs behind them.
func (w *world) furtherPorts(name string) []*further {
	w.T.Helper()
	listen := func(serve func(net.Listener)) int {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		w.check(err)
		go serve(l)
		w.T.Cleanup(func() { l.Close() })
		return portOf(l.Addr().String())
	}
	out := []*further{
		{name: "tcp", protocol: "TCP", ask: askFirst, program: listen(each(func(c net.Conn) {
			if line, err := bufio.NewReader(c).ReadString('\n'); err == nil {
				fmt.Fprintf(c, "%s hears %s", name, line)
			}
		}))},
		{name: "tcp-greeting", protocol: "TCP", ask: askGreeting, program: listen(each(func(c net.Conn) {
			fmt.Fprintf(c, "%s greets\n", name)
			_, _ = io.Copy(io.Discard, c)
		}))},
	}
	server := grpc.NewServer()
	grpc_health_v1.RegisterHealthServer(server, health{name: name})
	w.T.Cleanup(server.Stop)
	out = append(out, &further{name: "grpc", protocol: "GRPC", ask: askGRPC, program: listen(func(l net.Listener) { _ = server.Serve(l) })})
	for _, f := range out {
		f.number, f.port = lab.Port(w.T), lab.Port(w.T)
	}
	return out
}

// each answers each connection of a listener.
func each(answer func(net.Conn)) func(net.Listener) {
	return func(l net.Listener) {
		lab.AnswerEach(l, func(c net.Conn) {
			c.SetDeadline(time.Now().Add(10 * time.Second))
			answer(c)
		})
	}
}

// health answers with its name, and with what it is told of the client.
type health struct {
	grpc_health_v1.UnimplementedHealthServer
	name string
}

func (h health) Check(ctx context.Context, _ *grpc_health_v1.HealthCheckRequest) (*grpc_health_v1.HealthCheckResponse, error) {
	told := strings.Join(metadata.ValueFromIncomingContext(ctx, "x-forwarded-client-cert"), " ")
	err := grpc.SetHeader(ctx, metadata.Pairs("answer", fmt.Sprintf("%s is asked by <%s>", h.name, told)))
	return &grpc_health_v1.HealthCheckResponse{Status: grpc_health_v1.HealthCheckResponse_SERVING}, err
}

func dialed(at string, use func(net.Conn) (string, error)) (string, error) {
	c, err := net.DialTimeout("tcp", at, 5*time.Second)
	if err != nil {
		return "", err
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(10 * time.Second))
	return use(c)
}

func askFirst(at, _ string) (string, error) {
	return dialed(at, func(c net.Conn) (string, error) {
		fmt.Fprintln(c, "hello")
		return bufio.NewReader(c).ReadString('\n')
	})
}

func askGreeting(at, _ string) (string, error) {
	return dialed(at, func(c net.Conn) (string, error) { return bufio.NewReader(c).ReadString('\n') })
}

func askGRPC(at, host string) (string, error) {
	connection, err := grpc.NewClient(at, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithAuthority(host))
	if err != nil {
		return "", err
	}
	defer connection.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	var header metadata.MD
	_, err = grpc_health_v1.NewHealthClient(connection).Check(ctx, &grpc_health_v1.HealthCheckRequest{}, grpc.Header(&header))
	return strings.Join(header.Get("answer"), " "), err
}

// all writes each further port of one, none of nobody, by a format of its number, name, protocol, the sidecar's port, the program's, and m's address.
func (m *mover) all(of *mover, format string) string {
	var out strings.Builder
	if of == nil {
		return ""
	}
	for _, f := range of.further {
		fmt.Fprintf(&out, format+"%.0[7]s", f.number, f.name, f.protocol, f.port, f.program, m.ip, "")
	}
	return out.String()
}

// wants is what the program of a mover answers at a further port.
func (f *further) wants(of *mover, account string) string {
	switch {
	case f.name == "tcp":
		return of.name + " hears hello\n"
	case f.name == "tcp-greeting":
		return of.name + " greets\n"
	case account == "":
		return of.name + " is asked by <>"
	}
	return "URI=" + account + ">"
}

// asksFurther waits until each further port of the other one answers, through its own sidecar. The program of gRPC reads its account; an empty one means
// plain text.
func (m *mover) asksFurther(other *mover, account string) {
	m.w.T.Helper()
	for _, f := range other.further {
		at, want := net.JoinHostPort(m.ip, fmt.Sprint(f.number)), f.wants(other, account)
		right := func() error {
			got, err := f.ask(at, fmt.Sprintf("%s.test:%d", other.name, f.number))
			if err == nil && (!strings.Contains(got, want) || !strings.HasPrefix(got, other.name+" ")) {
				err = fmt.Errorf("the answer is %q, want %q", got, want)
			}
			return err
		}
		if err := lab.Eventually(30*time.Second, right); err != nil {
			m.w.T.Fatalf("%s (%s) asks port %s of %s (%s): %v", m.name, m.controlled, f.name, other.name, other.controlled, err)
		}
		for range 5 {
			if err := right(); err != nil {
				m.w.T.Errorf("%s (%s) asks port %s of %s (%s) again: %v", m.name, m.controlled, f.name, other.name, other.controlled, err)
			}
		}
	}
}

// takesPlainFurther checks that plain text is answered at the further ports, or that it is closed there. A server that speaks first is not asked where both
// kinds of client are taken: its sidecar waits for the client's first bytes.
func (m *mover) takesPlainFurther(mode string) {
	m.w.T.Helper()
	for _, f := range m.further {
		if f.name == "tcp-greeting" && mode == "PERMISSIVE" {
			continue
		}
		want := f.wants(m, "")
		if err := lab.Eventually(30*time.Second, func() error {
			got, err := f.ask(net.JoinHostPort(m.ip, fmt.Sprint(f.port)), fmt.Sprintf("%s.test:%d", m.name, f.number))
			if answered := err == nil && got == want; answered != (mode != "STRICT") || mode == "STRICT" && got != "" {
				return fmt.Errorf("plain text is answered by %q, %w; want an answer: %v", got, err, mode != "STRICT")
			}
			return nil
		}); err != nil {
			m.w.T.Fatalf("port %s of %s (%s): %v", f.name, m.name, m.controlled, err)
		}
	}
}
