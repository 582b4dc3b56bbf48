package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	security "istio.io/api/security/v1alpha1"
)

// storm asks from eight sides at once, until ask says that it is enough. One identity may ask 20 times a second.
func storm(t *testing.T, ask func() (enough bool, err error)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	ended := false
	var mu sync.Mutex
	var sides sync.WaitGroup
	for range 8 {
		sides.Go(func() {
			for ctx.Err() == nil {
				enough, err := ask()
				if err != nil {
					t.Error(err)
				}
				if enough || err != nil {
					mu.Lock()
					ended = true
					mu.Unlock()
					cancel()
				}
			}
		})
	}
	sides.Wait()
	if !ended {
		t.Error("a minute of questions was taken")
	}
}

// One identity that asks all the time is told at both doors when to come again, and then gets its certificate.
func TestServeTellsAStormToComeAgain(t *testing.T) {
	dir, address := filepath.Join(t.TempDir(), "ca"), freeAddress(t)
	token := command(t, "token", "create", "--namespace", "shop", "--service-account", "web", "--caDir", dir)
	s := startServe(t, "--configDir", t.TempDir(), "--ca", "--caDir", dir, "--secureGRPCAddr", address)
	c := newCaller(t, address, dir)
	c.certificate(token, nil)
	config := &tls.Config{RootCAs: c.roots, ServerName: "localhost"}
	body, err := json.Marshal(map[string]string{"csr": c.csr})
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: config, MaxIdleConnsPerHost: 8}}
	defer client.CloseIdleConnections()
	post := func() (code int, after string, err error) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+address+"/v1/certificates", bytes.NewReader(body))
		if err != nil {
			return 0, "", err
		}
		r.Header.Set("Authorization", "Bearer "+token)
		response, err := client.Do(r)
		if err != nil {
			return 0, "", err
		}
		defer response.Body.Close()
		_, err = new(bytes.Buffer).ReadFrom(response.Body)
		return response.StatusCode, response.Header.Get("Retry-After"), err
	}
	storm(t, func() (bool, error) {
		code, after, err := post()
		seconds, _ := strconv.Atoi(after)
		switch {
		case err != nil || code == http.StatusOK:
			return false, err
		case code != http.StatusTooManyRequests || seconds < 1 || seconds > 60:
			return true, fmt.Errorf("one that asks too often gets %d with Retry-After %q", code, after)
		}
		return true, nil
	})
	connection, err := grpc.NewClient(address, grpc.WithTransportCredentials(credentials.NewTLS(config)))
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	asking := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+token)
	storm(t, func() (bool, error) {
		_, err := security.NewIstioCertificateServiceClient(connection).CreateCertificate(asking, &security.IstioCertificateRequest{Csr: c.csr})
		if err == nil {
			return false, nil
		}
		told := status.Convert(err)
		for _, detail := range told.Details() {
			if again, ok := detail.(*errdetails.RetryInfo); ok && told.Code() == codes.ResourceExhausted {
				if after := again.GetRetryDelay().AsDuration(); after > 0 && after <= time.Minute {
					return true, nil
				}
			}
		}
		return true, fmt.Errorf("one that asks too often gets %v with %v, want when to come again", err, told.Details())
	})
	c.certificate(token, nil)
	s.stop(t)
}
