// What the lab runs in pods. Without arguments it is the pause container: it holds a pod's namespaces, and reaps. With "serve" it
// is the program behind a Service: it answers who it is, and whom it sees.
package main

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	if len(os.Args) == 3 && os.Args[1] == "serve" {
		serve(os.Args[2])
		return
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGCHLD)
	for one := range signals {
		if one != syscall.SIGCHLD {
			return
		}
		for {
			if pid, _ := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); pid <= 0 {
				break
			}
		}
	}
}

// serve listens on the address. After SIGTERM it answers for a while: kube-proxy learns of the end of an endpoint a moment later.
func serve(address string) {
	name := os.Getenv("NODE")
	http.HandleFunc("/", func(answer http.ResponseWriter, request *http.Request) {
		client, _, err := net.SplitHostPort(request.RemoteAddr)
		if err != nil {
			client = request.RemoteAddr
		}
		answer.Header().Set("Connection", "close")
		fmt.Fprintf(answer, "%s sees %s\n", name, client)
	})
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM)
	go func() {
		<-ended
		time.Sleep(5 * time.Second)
		os.Exit(0)
	}()
	fmt.Fprintln(os.Stderr, http.ListenAndServe(address, nil))
	os.Exit(1)
}
