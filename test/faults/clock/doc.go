// Package clock runs a program whose clock jumps, on a machine whose clock does not.
//
//	p := clock.Start(t, cmd, func() time.Duration { return 24 * time.Hour })
//	p.Wait() // as if somebody had set the machine's clock to tomorrow
//
// Only the time of day is another one. The time that the kernel measures
// waits by, CLOCK_MONOTONIC, goes on as it does on every machine whose clock
// is set. The program has to be a Go program without cgo, on linux/amd64.
package clock
