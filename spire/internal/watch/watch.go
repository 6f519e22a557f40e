// Package watch tells that something happened to a file or a directory
// (inotify(7)), not what: who wants to know looks.
package watch

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

const (
	// Closed is that somebody has read the file.
	Closed = unix.IN_CLOSE_NOWRITE
	// Changed is that a file of the directory came, went or was written.
	Changed = unix.IN_MOVED_TO | unix.IN_MOVED_FROM | unix.IN_CLOSE_WRITE | unix.IN_DELETE | unix.IN_ATTRIB | unix.IN_DELETE_SELF | unix.IN_MOVE_SELF
)

// Watch watches one path. Stop ends it.
type Watch struct {
	// Events has a value after one event or more. It is closed when the
	// watch ends, also because what it watches is gone.
	Events <-chan struct{}
	file   *os.File
}

// Start watches what the path leads to now.
func Start(path string, mask uint32) (*Watch, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("inotify: %w", err)
	}
	file := os.NewFile(uintptr(fd), "inotify")
	if _, err := unix.InotifyAddWatch(fd, path, mask); err != nil {
		return nil, errors.Join(fmt.Errorf("watching %s: %w", path, err), file.Close())
	}
	events := make(chan struct{}, 1)
	go func() {
		defer close(events)
		buffer := make([]byte, 4096)
		for {
			n, err := file.Read(buffer)
			if err != nil || n < unix.SizeofInotifyEvent {
				return
			}
			select {
			case events <- struct{}{}:
			default:
			}
			if gone(buffer[:n]) {
				return
			}
		}
	}()
	return &Watch{Events: events, file: file}, nil
}

// gone tells whether one of the events says that the path leads elsewhere now. An event is wd, mask,
// cookie and the length of the name behind it, of 32 bits each.
func gone(events []byte) bool {
	for len(events) >= unix.SizeofInotifyEvent {
		mask := binary.NativeEndian.Uint32(events[4:])
		name := binary.NativeEndian.Uint32(events[12:])
		if mask&(unix.IN_IGNORED|unix.IN_MOVE_SELF) != 0 {
			return true
		}
		events = events[min(unix.SizeofInotifyEvent+int(name), len(events)):]
	}
	return false
}

// Stop ends the watch.
func (w *Watch) Stop() { w.file.Close() }
