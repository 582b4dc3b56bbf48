package main

import (
	"flag"
	"fmt"
	"os"
	"time"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "adsbench:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	roles := map[string]func([]string) error{"server": runServer, "floor": runFloor, "fleet": runFleet, "ca": runAuthority}
	if len(args) > 0 && roles[args[0]] != nil {
		return roles[args[0]](args[1:])
	}
	flags := flag.NewFlagSet("adsbench", flag.ExitOnError)
	var b bench
	flags.IntVar(&b.services, "services", 100, "services of the mesh")
	flags.IntVar(&b.endpoints, "endpoints", 10, "endpoints of each")
	flags.IntVar(&b.proxies, "proxies", 100, "simulated Envoys")
	flags.IntVar(&b.namespaces, "namespaces", 1, "that services and proxies are in, in turn: each has a view of its own")
	flags.IntVar(&b.runs, "runs", 1, "runs of each variant; medians and ranges are printed")
	flags.IntVar(&b.changes, "changes", 3, "changes of each sort in a run")
	flags.DurationVar(&b.debounce, "debounce", 100*time.Millisecond, "of the server: the least time from one push to the next; a change after that is pushed at once")
	flags.DurationVar(&b.storm, "storm", 10*time.Second, "how long to change an endpoint ten times a second; 0s to leave that out")
	flags.DurationVar(&b.rest, "rest", 30*time.Second, "how long a server has to give back memory by itself before it is measured; 0s to leave that out")
	flags.StringVar(&b.only, "variant", "", "sotw or delta; both when empty")
	flags.StringVar(&b.profile, "profile", "", "write CPU profiles of the server to files that begin so")
	flags.IntVar(&b.many, "many", 10_000, "services of the mesh in which three proxies are told of one endpoint; 0 to leave that out")
	flags.BoolVar(&b.cold, "cold", false, "measure the first configuration only: a run takes some seconds")
	growth := flags.Bool("growth", false, "measure three sizes of each dimension and fit a line, instead")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *growth {
		return b.growth()
	}
	return b.table()
}
