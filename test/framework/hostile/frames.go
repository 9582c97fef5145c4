// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"bytes"
	"io"
	"net"
	"strings"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// The lies below HTTP: frames that no server of Go would send. A client may close the connection at any time, so errors end a lie.

// framing is a connection of HTTP/2.
type framing struct {
	*http2.Framer
	conn net.Conn
}

// speak reads what a client sends, confirms its settings and pings, and calls requested for each request, until one of these fails.
func speak(settings []http2.Setting, greeted func(*framing) error, requested func(f *framing, stream uint32) error) func(net.Conn) {
	return func(conn net.Conn) {
		defer conn.Close() //nolint:errcheck // the client may have closed it
		if _, err := io.ReadFull(conn, make([]byte, len(http2.ClientPreface))); err != nil {
			return
		}
		f := &framing{http2.NewFramer(conn, conn), conn}
		f.AllowIllegalWrites = true
		err := f.WriteSettings(settings...)
		if err == nil && greeted != nil {
			err = greeted(f)
		}
		for err == nil {
			var frame http2.Frame
			if frame, err = f.ReadFrame(); err != nil {
				return
			}
			switch frame := frame.(type) {
			case *http2.SettingsFrame:
				if !frame.IsAck() {
					err = f.WriteSettingsAck()
				}
			case *http2.PingFrame:
				if !frame.IsAck() {
					err = f.WritePing(true, frame.Data)
				}
			case *http2.HeadersFrame:
				if requested != nil {
					err = requested(f, frame.StreamID)
				}
			}
		}
	}
}

// block encodes header fields, names and values in turn.
func block(fields ...string) []byte {
	var out bytes.Buffer
	encoder := hpack.NewEncoder(&out)
	for i := 0; i+1 < len(fields); i += 2 {
		encoder.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]}) //nolint:errcheck // a buffer takes all
	}
	return out.Bytes()
}

// head sends the header of an answer.
func (f *framing) head(stream uint32, end bool, fields ...string) error {
	return f.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: block(fields...), EndHeaders: true, EndStream: end})
}

// ok answers a request with an empty document.
func ok(f *framing, stream uint32) error {
	if err := f.head(stream, false, ":status", "200", "content-type", "application/json"); err != nil {
		return err
	}
	return f.WriteData(stream, true, []byte("{}"))
}

// forEver repeats something until it fails.
func forEver(do func() error) error {
	for {
		if err := do(); err != nil {
			return err
		}
	}
}

func setting(id http2.SettingID, value uint32) []http2.Setting {
	return []http2.Setting{{ID: id, Val: value}}
}

// Frames are the lies in HTTP/2.
var Frames = []Lie{
	framed("frame-size-zero", speak(setting(http2.SettingMaxFrameSize, 0), nil, ok)),
	framed("frame-size-zero-later", speak(nil, nil, func(f *framing, stream uint32) error {
		if err := f.WriteSettings(http2.Setting{ID: http2.SettingMaxFrameSize}); err != nil {
			return err
		}
		return ok(f, stream)
	})),
	framed("frame-size-huge", speak(setting(http2.SettingMaxFrameSize, 1<<31), nil, ok)),
	framed("no-streams", speak(setting(http2.SettingMaxConcurrentStreams, 0), nil, nil)),
	framed("no-window", speak(setting(http2.SettingInitialWindowSize, 0), nil, nil)),
	framed("window-too-large", speak(nil, func(f *framing) error { return f.WriteWindowUpdate(0, 1<<31-1) }, ok)),
	framed("no-header-table", speak(setting(http2.SettingHeaderTableSize, 0), nil, ok)),
	framed("header-list-of-one-byte", speak(setting(http2.SettingMaxHeaderListSize, 1), nil, ok)),
	framed("goaway-at-once", speak(nil, func(f *framing) error { return f.WriteGoAway(0, http2.ErrCodeNo, nil) }, nil)),
	framed("goaway-each-request", speak(nil, nil, func(f *framing, _ uint32) error { return f.WriteGoAway(0, http2.ErrCodeNo, nil) })),
	framed("goaway-storm", speak(nil, func(f *framing) error {
		return forEver(func() error { return f.WriteGoAway(1<<31-1, http2.ErrCodeNo, []byte(strings.Repeat("a", 10<<10))) })
	}, nil)),
	framed("refused-streams", speak(nil, nil, func(f *framing, stream uint32) error { return f.WriteRSTStream(stream, http2.ErrCodeRefusedStream) })),
	framed("reset-streams", speak(nil, nil, func(f *framing, stream uint32) error { return f.WriteRSTStream(stream, http2.ErrCodeInternal) })),
	framed("reset-storm", speak(nil, nil, func(f *framing, stream uint32) error {
		return forEver(func() error { return f.WriteRSTStream(stream, http2.ErrCodeCancel) })
	})),
	framed("settings-storm", speak(nil, func(f *framing) error {
		return forEver(func() error { return f.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 20}) })
	}, nil)),
	framed("ping-storm", speak(nil, func(f *framing) error { return forEver(func() error { return f.WritePing(false, [8]byte{1}) }) }, nil)),
	framed("empty-data-storm", speak(nil, nil, func(f *framing, stream uint32) error {
		if err := f.head(stream, false, ":status", "200", "content-type", "application/json"); err != nil {
			return err
		}
		return forEver(func() error { return f.WriteData(stream, false, nil) })
	})),
	framed("unknown-frames", speak(nil, nil, func(f *framing, stream uint32) error {
		return forEver(func() error { return f.WriteRawFrame(0xfa, 0, stream, make([]byte, 1<<10)) })
	})),
	framed("headers-without-end", speak(nil, nil, func(f *framing, stream uint32) error {
		if err := f.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: block(":status", "200")}); err != nil {
			return err
		}
		more := block("x-lie", strings.Repeat("a", 10<<10))
		return forEver(func() error { return f.WriteContinuation(stream, false, more) })
	})),
	framed("continuations-of-nothing", speak(nil, nil, func(f *framing, stream uint32) error {
		if err := f.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: block(":status", "200")}); err != nil {
			return err
		}
		return forEver(func() error { return f.WriteContinuation(stream, false, nil) })
	})),
	framed("header-flood", speak(nil, nil, func(f *framing, stream uint32) error {
		fields := []string{":status", "200"}
		for range 1000 {
			fields = append(fields, "x-lie", "a")
		}
		return f.head(stream, true, fields...)
	})),
	framed("hints-without-end", speak(nil, nil, func(f *framing, stream uint32) error {
		return forEver(func() error { return f.head(stream, false, ":status", "103", "link", "</lie>") })
	})),
	framed("trailers-without-end", speak(nil, nil, func(f *framing, stream uint32) error {
		if err := f.head(stream, false, ":status", "200"); err != nil {
			return err
		}
		return forEver(func() error { return f.head(stream, false, "x-lie", "a") })
	})),
	framed("pushes", speak(nil, nil, func(f *framing, stream uint32) error {
		return f.WritePushPromise(http2.PushPromiseParam{StreamID: stream, PromiseID: 2, BlockFragment: block(":status", "200"), EndHeaders: true})
	})),
	framed("answers-nobody-asked-for", speak(nil, nil, func(f *framing, stream uint32) error {
		return f.head(stream+100, true, ":status", "200")
	})),
	framed("too-much-data", speak(nil, nil, func(f *framing, stream uint32) error {
		if err := f.head(stream, false, ":status", "200", "content-type", "application/json"); err != nil {
			return err
		}
		return forEver(func() error { return f.WriteData(stream, false, []byte(strings.Repeat(" ", 16<<10))) })
	})),
	framed("no-http2", func(conn net.Conn) {
		defer conn.Close()                                                                                            //nolint:errcheck // the client may have closed it
		forEver(func() error { _, err := conn.Write(bytes.Repeat([]byte("HTTP/1.1 200 OK\r\n"), 1000)); return err }) //nolint:errcheck // it ends by an error
	}),
	framed("no-words", func(conn net.Conn) {
		defer conn.Close()        //nolint:errcheck // the client may have closed it
		io.Copy(io.Discard, conn) //nolint:errcheck // it ends by an error
	}),
}

func framed(name string, frames func(net.Conn)) Lie {
	return Lie{Name: name, Frames: frames, Shows: Shows{Complains: true}}
}
