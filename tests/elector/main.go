// Elector competes for a Lease with client-go's own leader election, so that the agent can be tried against the
// implementation that kube-vip and the Kubernetes components use. It prints one JSON object a line on standard output:
// started-leading, stopped-leading and new-leader, each with the wall-clock time.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

type settings struct {
	kubeconfig, namespace, name, identity     string
	leaseDuration, renewDeadline, retryPeriod time.Duration
	requestTimeout                            time.Duration
	releaseOnCancel, again                    bool
}

// event is one line of output. UnixNano is for programs, Time for people.
type event struct {
	Event    string `json:"event"`
	Identity string `json:"identity"`
	Leader   string `json:"leader,omitempty"`
	Time     string `json:"time"`
	UnixNano int64  `json:"unixNano"`
}

func main() {
	var s settings
	flag.StringVar(&s.kubeconfig, "kubeconfig", "", "path of the kubeconfig")
	flag.StringVar(&s.namespace, "namespace", "kube-system", "namespace of the Lease")
	flag.StringVar(&s.name, "name", "plndr-cp-lock", "name of the Lease")
	flag.StringVar(&s.identity, "identity", "", "holder identity to write")
	flag.DurationVar(&s.leaseDuration, "lease-duration", 15*time.Second, "how long others wait for a holder that is silent")
	flag.DurationVar(&s.renewDeadline, "renew-deadline", 10*time.Second, "how long the holder tries to renew before it gives up")
	flag.DurationVar(&s.retryPeriod, "retry-period", 2*time.Second, "time between tries")
	flag.DurationVar(&s.requestTimeout, "request-timeout", 0, "deadline of one request; 0: client-go's choice (half the renew deadline)")
	flag.BoolVar(&s.releaseOnCancel, "release-on-cancel", false, "give the Lease up on SIGTERM")
	flag.BoolVar(&s.again, "again", false, "campaign again after the Lease was lost, in place of ending")
	flag.Parse()
	if err := run(s); err != nil {
		fmt.Fprintln(os.Stderr, "elector:", err)
		os.Exit(1)
	}
}

func run(s settings) error {
	if s.identity == "" {
		return fmt.Errorf("--identity must be given")
	}
	if s.kubeconfig == "" {
		return fmt.Errorf("--kubeconfig must be given")
	}
	config, err := clientcmd.BuildConfigFromFlags("", s.kubeconfig)
	if err != nil {
		return fmt.Errorf("read kubeconfig %s: %w", s.kubeconfig, err)
	}
	config.UserAgent = "mooring-elector"
	config.Timeout = s.requestTimeout
	if config.Timeout == 0 {
		// As resourcelock.NewFromKubeconfig does it: one hanging request must not use up the whole deadline.
		config.Timeout = s.renewDeadline / 2
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("make a client: %w", err)
	}

	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	for {
		elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
			Lock: &resourcelock.LeaseLock{
				LeaseMeta:  metav1.ObjectMeta{Namespace: s.namespace, Name: s.name},
				Client:     client.CoordinationV1(),
				LockConfig: resourcelock.ResourceLockConfig{Identity: s.identity},
			},
			LeaseDuration:   s.leaseDuration,
			RenewDeadline:   s.renewDeadline,
			RetryPeriod:     s.retryPeriod,
			ReleaseOnCancel: s.releaseOnCancel,
			Name:            s.identity,
			Callbacks: leaderelection.LeaderCallbacks{
				OnStartedLeading: func(context.Context) { say(s.identity, "started-leading", "") },
				OnStoppedLeading: func() { say(s.identity, "stopped-leading", "") },
				OnNewLeader:      func(leader string) { say(s.identity, "new-leader", leader) },
			},
		})
		if err != nil {
			return fmt.Errorf("settings of the election: %w", err)
		}
		elector.Run(ctx)
		if ctx.Err() != nil || !s.again {
			return nil
		}
	}
}

func say(identity, what, leader string) {
	now := time.Now()
	line, err := json.Marshal(event{what, identity, leader, now.UTC().Format(time.RFC3339Nano), now.UnixNano()})
	if err != nil {
		fmt.Fprintln(os.Stderr, "elector:", err)
		return
	}
	// One write a line: callbacks run in goroutines of their own.
	if _, err := os.Stdout.Write(append(line, '\n')); err != nil {
		os.Exit(1)
	}
}
