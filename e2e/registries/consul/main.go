package main

import (
	"os"

	"github.com/hashicorp/consul/command/agent"
	"github.com/hashicorp/consul/command/cli"
	mitchellh "github.com/mitchellh/cli"
)

// Of the commands of Consul's own program this one has agent alone.
func main() {
	c := mitchellh.NewCLI("consul", "")
	c.Args = os.Args[1:]
	c.Commands = map[string]mitchellh.CommandFactory{"agent": func() (mitchellh.Command, error) {
		return agent.New(&cli.BasicUI{BasicUi: mitchellh.BasicUi{Writer: os.Stdout, ErrorWriter: os.Stderr}}), nil
	}}
	status, err := c.Run()
	if err != nil {
		panic(err)
	}
	os.Exit(status)
}
