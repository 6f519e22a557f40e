package engine

import (
	"fmt"
	"os"
)

// erroredState is where OpenTofu writes a state that it couldn't store.
const erroredState = "errored.tfstate"

// reserveErroredState makes sure that the file, which may hold secrets, can be
// read by its owner only: OpenTofu would leave that to the umask. Where no file
// can be made, OpenTofu prints the state instead. A file that is there from
// before, and may be the only record of what was applied then, is kept under
// another name.
func reserveErroredState() {
	if fi, err := os.Lstat(erroredState); err == nil && fi.Mode().IsRegular() && fi.Size() > 0 {
		for i := 1; i < 1000; i++ {
			kept := fmt.Sprintf("%s.%d", erroredState, i)
			if _, err := os.Lstat(kept); os.IsNotExist(err) {
				_ = os.Rename(erroredState, kept)
				break
			}
		}
	}
	f, err := os.OpenFile(erroredState, os.O_CREATE|os.O_RDONLY, 0o600)
	if err != nil {
		return
	}
	defer f.Close()
	_ = f.Chmod(0o600)
}

// dropUnusedErroredState removes the reserved file when the state could be
// stored after all.
func dropUnusedErroredState() {
	if fi, err := os.Stat(erroredState); err == nil && fi.Mode().IsRegular() && fi.Size() == 0 {
		_ = os.Remove(erroredState)
	}
}
