// Program able prints whether an image that is built as it is can be replaced, and whether signals can be held.
package main

import (
	"fmt"
	_ "net" // with cgo it has threads of C

	"github.com/pilotlight/pilotlight/agent/handoff"
)

func main() { fmt.Println(handoff.Able(), handoff.Hold(true)) }
