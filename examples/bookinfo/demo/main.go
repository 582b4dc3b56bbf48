package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
)

func main() {
	// A child's parent-death signal is tied to the thread that forked it. This goroutine forks all of them, and its
	// thread lives as long as the process.
	runtime.LockOSThread()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(command(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// command returns 0 when the demo was asked to stop, 1 when it could not go on, 2 when it was called wrongly.
func command(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var o options
	flags := flag.NewFlagSet("demo", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&o.bin, "bin", "bin", "folder of the binaries: agent, discovery, bookinfo, envoy")
	flags.StringVar(&o.config, "config", "examples/bookinfo/config", "folder of Istio YAML")
	flags.StringVar(&o.run, "run", "run", "folder for logs, and for what the agents write")
	flags.StringVar(&o.addresses, "addresses", defaultAddresses, "first three bytes of the services' loopback addresses; "+
		"for others than the default the configuration is copied to the run folder")
	flags.IntVar(&o.offset, "port-offset", 0, "added to the ports of discovery, admin and outbound traffic")
	flags.StringVar(&o.registry, "registry", "", "where the services are registered: consul for a real Consul, which the demo starts; "+
		"empty for the configuration itself")
	flags.BoolVar(&o.mtls, "mtls", false, "mutual TLS: discovery is an authority, the mesh STRICT, and only productpage may read reviews; "+
		"a gateway has the page, and the configuration is copied to the run folder")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	if ip, err := netip.ParseAddr(o.ip(0)); err != nil || !ip.IsLoopback() || !strings.HasSuffix(o.addresses, ".") {
		fmt.Fprintf(stderr, "demo: -addresses %q: want the start of loopback addresses, as 127.7.0.\n", o.addresses)
		return 2
	}
	if o.registry != "" && o.registry != consul {
		fmt.Fprintf(stderr, "demo: -registry %q: want consul, or nothing\n", o.registry)
		return 2
	}
	if o.mtls && o.registry != "" {
		fmt.Fprintln(stderr, "demo: -mtls, -registry: want one of them: the services of Consul have no accounts")
		return 2
	}
	if err := run(ctx, o, stdout); err != nil {
		fmt.Fprintln(stderr, "demo:", err)
		return 1
	}
	return 0
}
