package main

import (
	"os"

	"github.com/hashicorp/consul/command/agent"
	"github.com/hashicorp/consul/command/cli"
	mitchellh "github.com/mitchellh/cli"
)

func main() {
	ui := &cli.BasicUI{BasicUi: mitchellh.BasicUi{Writer: os.Stdout, ErrorWriter: os.Stderr}}
	os.Exit(agent.New(ui).Run(os.Args[1:]))
}
