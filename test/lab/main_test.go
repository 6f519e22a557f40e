package lab

import (
	"fmt"
	"os"
	"testing"
)

// hold makes this test program start a lab, print its directory, and wait: to
// be killed by TestLabDiesWithTheProcessThatStartedIt.
const hold = "YUBA_LAB_TEST_HOLD"

func TestMain(m *testing.M) {
	if os.Getenv(hold) == "" {
		os.Exit(m.Run())
	}
	l, err := shared()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(l.Dir)
	select {}
}
