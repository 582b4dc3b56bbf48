package client

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
)

// The sockets of an agent that is replaced stay open: one that refuses has ended, and nothing is waited for.
func TestAnAgentThatEndsInAnUpgrade(t *testing.T) {
	ends := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			fmt.Fprint(w, `{"upgrades":{"count":0,"pending":"v2"}}`)
			return
		}
		w.WriteHeader(http.StatusAccepted)
		close(ends)
	}))
	c := asking(t, server)
	go func() {
		<-ends
		server.Close()
	}()
	_, err := c.Upgrade(t.Context(), "")
	says(t, err, "the agent has ended")
}
