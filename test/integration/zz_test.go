package integration

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/tripod-k8s/tripod/test/framework"
)

func TestZZ(t *testing.T) {
	env := framework.ForTest(t)
	s, err := env.StartStock(t.Context(), framework.StockOptions{})
	must(t, s, err)
	time.Sleep(5 * time.Second)
	// kill etcd: find by url
	_ = syscall.Kill(s.Process.PID()-0, 0)
	fmt.Println("ETCD", s.EtcdURL, s.Process.PID())
	time.Sleep(12 * time.Second)
	began := time.Now()
	s.Process.Signal(syscall.SIGTERM)
	<-s.Process.Done()
	fmt.Println("STOCK STOPPED AFTER", time.Since(began), s.Process.ExitCode())
}
