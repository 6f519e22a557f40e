package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"io"

	"golang.org/x/term"

	"fediversity.eu/yuba/providers/kubernetes"
)

func k8sLogs(f *flag.FlagSet) action {
	var g groupFlags
	g.register(f)
	var o kubernetes.LogOptions
	f.BoolVar(&o.Follow, "f", false, "go on until the container ends")
	f.Int64Var(&o.Lines, "tail", -1, "print the last `number` of lines only; -1: all that there is")
	f.Int64Var(&o.Lines, "n", -1, "the same as -tail, a `number`")
	f.BoolVar(&o.Previous, "previous", false, "print the log of before the container's last restart")
	f.BoolVar(&o.Previous, "p", false, "the same as -previous")
	f.Var((*duration)(&o.Since), "since", "leave out what is older than a `duration` such as 10m")
	f.BoolVar(&o.Timestamps, "timestamps", false, "print the time before each line")
	f.BoolVar(&o.Journal, "journal", false, "print systemd's journal instead of its console")
	f.Var((*strs)(&o.Units), "u", "print the journal of this `unit`, such as nginx.service; may be given several times")
	return func(ctx context.Context, p process, args []string) error {
		_, namespace, node, err := g.node(ctx, p, args)
		if err != nil {
			return err
		}
		journal := o.Journal || len(o.Units) > 0
		switch {
		case o.Follow && o.Previous:
			return usagef("-f and -previous exclude each other: what has ended says no more")
		case journal && o.Previous:
			return usagef("-previous is about the console: the journal of a container that has ended is gone, unless the node keeps it below /var/lib")
		case journal && o.Timestamps:
			return usagef("-timestamps is about the console: a journal has times by itself")
		}
		c, err := p.cluster()
		if err != nil {
			return err
		}
		ctx, done := p.interruptible(ctx)
		defer done()
		if !term.IsTerminal(int(p.stdout.Fd())) {
			return interrupted(ctx, c.Logs(ctx, namespace, node, o, p.stdout))
		}
		w := &plainLines{w: p.stdout}
		err = interrupted(ctx, c.Logs(ctx, namespace, node, o, w))
		return errors.Join(w.flush(), err) // a line that has not ended may be the one that it hangs on
	}
}

// plainLines passes whole lines on, without what would steer a terminal.
type plainLines struct {
	w    io.Writer
	rest []byte
}

// maxLine is the length from which on a line is passed on in pieces, in bytes.
const maxLine = 64 << 10

func (l *plainLines) Write(p []byte) (int, error) {
	l.rest = append(l.rest, p...)
	end := bytes.LastIndexByte(l.rest, '\n') + 1
	if end == 0 && len(l.rest) > maxLine {
		end = len(l.rest)
	}
	if end == 0 {
		return len(p), nil
	}
	text := kubernetes.PlainText(string(l.rest[:end]))
	l.rest = append(l.rest[:0], l.rest[end:]...)
	if _, err := io.WriteString(l.w, text); err != nil {
		return 0, err
	}
	return len(p), nil
}

// flush passes on a last line without an end.
func (l *plainLines) flush() error {
	if len(l.rest) == 0 {
		return nil
	}
	_, err := io.WriteString(l.w, kubernetes.PlainText(string(l.rest))+"\n")
	return err
}
