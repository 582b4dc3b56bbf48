// Unfit is an image of the agent that says that it can take over, and then cannot: it gives the process back.
package main

import (
	"fmt"
	"os"
	"strings"
	"syscall"
)

func main() {
	value := os.Getenv("PILOTLIGHT_ADOPT")
	if value == "" {
		fmt.Println(`{"formats":[1,2,3,4],"version":"unfit","capabilities":"ffffffffffffffff"}`)
		return
	}
	fields := strings.SplitN(value, ",", 4) // state, previous, signals, reason
	os.Setenv("PILOTLIGHT_ADOPT", fmt.Sprintf("%s,,%s,unfit by nature", fields[0], fields[2]))
	err := syscall.Exec("/proc/self/fd/"+fields[1], os.Args, os.Environ())
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
