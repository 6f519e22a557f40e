package engine

import "os"

// erroredState is where OpenTofu writes a state that it couldn't store.
const erroredState = "errored.tfstate"

// reserveErroredState makes sure that the file, which may hold secrets, can be
// read by its owner only: OpenTofu would leave that to the umask. Where no file
// can be made, OpenTofu prints the state instead.
func reserveErroredState() {
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
