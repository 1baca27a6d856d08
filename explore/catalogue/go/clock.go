package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"k8s.io/client-go/rest"
)

// lab asks the lab's API, which serves administrators.
func (k *kube) lab(path string) ([]byte, error) {
	client, err := rest.HTTPClientFor(k.config)
	if err != nil {
		return nil, err
	}
	answer, err := client.Get(k.config.Host + "/kstore/lab/v1/" + path)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", path, answer.Status)
	}
	return io.ReadAll(answer.Body)
}

// now is the time of the cluster, which passes without real time.
func (k *kube) now() (time.Time, error) {
	var clock struct{ Time time.Time }
	body, err := k.lab("clock")
	if err == nil {
		err = json.Unmarshal(body, &clock)
	}
	return clock.Time, err
}

// after reconciles a name after a time of the cluster.
func (k *kube) after(pause time.Duration, name string) {
	go func() {
		if _, err := k.lab("clock/wait?for=" + pause.String()); err != nil {
			fmt.Printf("waiting for %s: %v\n", pause, err)
		}
		k.queue.Add(name)
	}()
}
