package push

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"fediversity.eu/yuba/providers/oci/internal/registry"
)

const (
	// pieceSize is how much is held in memory to send again, once an upload was cut. Some registries take no piece of
	// less than 5 MiB (that of Amazon), and more requests cost more round trips.
	pieceSize = 8 << 20
	// maxPieceSize bounds what a registry can ask for with OCI-Chunk-Min-Length.
	maxPieceSize = 64 << 20
	// minAdvance is how much more a registry must have after an attempt for the next ones to be counted anew.
	minAdvance = 64 << 10
	maxRefused = 3
)

// uploader brings blobs into one repository.
type uploader struct {
	client      *registry.Client
	repo        name.Repository
	compression Compression
	blocks      *blocks
}

// layer has the repository hold the layer. known is not nil where it's known what the layer becomes; it may then be in
// another repository of the registry.
func (u *uploader) layer(ctx context.Context, l Layer, known *v1.Descriptor, from name.Repository) (v1.Descriptor, error) {
	up := &upload{uploader: u, layer: l}
	defer up.stop()
	switch {
	case known != nil:
		up.what, up.from = *known, from
	case l.Blob != nil:
		up.what = *l.Blob
	}
	err := u.client.Retry(ctx, true, up.attempt)
	return up.what, err
}

// upload is one layer on its way, over several requests and attempts if need be.
type upload struct {
	*uploader
	layer Layer
	// what the layer becomes; Size is 0 as long as it's not known.
	what v1.Descriptor
	from name.Repository // where it may be mounted from

	session  *registry.Session
	to       *url.URL // where the next request goes; nil: there is no upload
	held     int64    // of so many bytes the registry has said that it has them
	minPiece int64
	refused  int // how often, one after the other, the registry wanted no piece that begins where it said
	// whole: it can't go on after a cut, or not so that the outcome is good.
	whole bool

	// After a cut the rest goes in pieces: those that the registry may want again are kept.
	stream *stream
	piece  []byte // what of the stream was read and is not in held
}

// attempt goes on where the one before has failed.
func (up *upload) attempt(ctx context.Context) (err error) {
	first := up.session == nil
	// The pull scope of the other repository is for mounting from it.
	var also []name.Repository
	if up.from != (name.Repository{}) && up.from != up.repo {
		also = append(also, up.from)
	}
	if up.session, err = up.client.Session(ctx, up.repo, true, also...); err != nil {
		return err
	}
	if up.what.Size > 0 {
		// It may be there already, or the answer to the last request was lost, or came too late.
		if held, err := hasBlob(ctx, up.session, up.what); held || err != nil {
			return err
		}
	}
	if !first && up.to != nil {
		if err := up.ask(ctx); err != nil {
			return err
		}
	}
	if up.to == nil {
		if held, err := up.begin(ctx); held || err != nil {
			return err
		}
	}
	switch {
	case up.held == 0:
		err = up.send(ctx)
	case up.held != up.what.Size:
		err = up.pieces(ctx)
	}
	if err != nil {
		return err
	}
	return up.commit(ctx)
}

func (up *upload) stop() {
	if up.stream != nil {
		up.stream.Close()
	}
	up.stream, up.piece = nil, nil
}

// forget gives up what was sent. The registry removes it in time.
func (up *upload) forget() {
	up.stop()
	up.to, up.held = nil, 0
}

// begin opens an upload. held is true when the registry has the layer instead, from another repository.
func (up *upload) begin(ctx context.Context) (held bool, err error) {
	at := up.session.URL("blobs/uploads/")
	if up.what.Size > 0 && up.from != (name.Repository{}) && up.from != up.repo {
		at += "?" + url.Values{"mount": {up.what.Digest.String()}, "from": {up.from.RepositoryStr()}}.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, at, nil)
	if err != nil {
		return false, err
	}
	resp, err := up.session.Do(req, http.StatusAccepted, http.StatusCreated)
	if err != nil {
		return false, err
	}
	resp.Body.Close()
	if resp.StatusCode == http.StatusCreated {
		return true, nil
	}
	up.held = 0
	up.minPiece, _ = strconv.ParseInt(resp.Header.Get("OCI-Chunk-Min-Length"), 10, 64)
	up.to, err = up.session.Upload(resp)
	return false, err
}

// ask asks how much of an upload that was cut the registry has (distribution-spec, "Pushing a blob in chunks"). Where it
// can't tell, the upload starts again.
func (up *upload) ask(ctx context.Context) error {
	if up.whole || up.minPiece > maxPieceSize {
		up.forget()
		return nil
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, up.to.String(), nil)
	if err != nil {
		return err
	}
	resp, err := up.session.Do(req, http.StatusNoContent, http.StatusOK, http.StatusAccepted)
	if err != nil {
		if status := (*transport.Error)(nil); !errors.As(err, &status) || status.StatusCode == http.StatusTooManyRequests ||
			status.StatusCode == http.StatusServiceUnavailable {
			return err
		}
		up.forget()
		return nil
	}
	resp.Body.Close()
	held, ok := parseRange(resp.Header.Get("Range"))
	// One byte is what registries say for none, too.
	if !ok || held <= 1 || held < up.held {
		up.forget()
		return nil
	}
	if resp.Header.Get("Location") != "" {
		if up.to, err = up.session.Upload(resp); err != nil {
			return err
		}
	}
	up.advance(ctx, held)
	return nil
}

// parseRange reads "0-N", and gives the number of bytes.
func parseRange(s string) (n int64, ok bool) {
	end, ok := strings.CutPrefix(strings.TrimPrefix(s, "bytes="), "0-")
	if !ok {
		return 0, false
	}
	last, err := strconv.ParseUint(end, 10, 62)
	return int64(last) + 1, err == nil
}

// advance notes how much the registry has.
func (up *upload) advance(ctx context.Context, held int64) {
	sent := held - up.held
	if sent >= minAdvance {
		registry.Advanced(ctx)
	}
	up.held = held
	if up.stream == nil {
		return
	}
	if sent > int64(len(up.piece)) {
		up.stop() // it will be opened again
		return
	}
	up.piece = up.piece[sent:]
}

// send streams the layer in one request. A request that is sent again, for a fresh token, begins with the layer.
func (up *upload) send(ctx context.Context) error {
	up.stop()
	req, err := up.patch(ctx, http.NoBody)
	if err != nil {
		return err
	}
	// Before the authentication sends it again, it must know that there is another body to be had; the first one is
	// never sent.
	req.ContentLength = -1
	req.GetBody = func() (io.ReadCloser, error) {
		up.stop()
		up.stream = newStream(ctx, up.layer, up.compression, up.blocks, 0)
		return up.stream, nil
	}
	if req.Body, err = req.GetBody(); err != nil {
		return err
	}
	// Lets a registry that wants a fresh token, or nothing at all, say so before the content flows.
	req.Header.Set("Expect", "100-continue")
	resp, err := up.session.Do(req, http.StatusAccepted, http.StatusNoContent, http.StatusCreated)
	s := up.stream
	up.stop()
	if err := up.sourceError(ctx, s); err != nil {
		return err
	}
	if d, whole := s.descriptor(); whole {
		up.what = d
	}
	if err != nil {
		return err
	}
	resp.Body.Close()
	if up.to, err = up.session.Upload(resp); err != nil {
		return err
	}
	if _, whole := s.descriptor(); !whole {
		return fmt.Errorf("%w: the registry answered before it had read the layer", registry.ErrAgain)
	}
	return nil
}

func (up *upload) sourceError(ctx context.Context, s *stream) error {
	if s.err != nil && ctx.Err() == nil {
		return &SourceError{s.err}
	}
	return nil
}

func (up *upload) patch(ctx context.Context, body io.Reader) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPatch, up.to.String(), body)
	if err == nil {
		req.Header.Set("Content-Type", "application/octet-stream")
	}
	return req, err
}

// pieces sends what follows after held, in requests of known length.
func (up *upload) pieces(ctx context.Context) error {
	if up.stream == nil {
		// The compressor makes the same bytes again.
		up.stream = newStream(ctx, up.layer, up.compression, up.blocks, up.held)
	}
	buf := make([]byte, max(pieceSize, up.minPiece))
	for {
		if len(up.piece) == 0 {
			n, err := fill(up.stream, buf)
			if err != nil && err != io.EOF {
				if source := up.sourceError(ctx, up.stream); source != nil {
					<-up.stream.done
					return source
				}
				return err
			}
			if n == 0 {
				break
			}
			up.piece = buf[:n]
		}
		req, err := up.patch(ctx, bytes.NewReader(up.piece))
		if err != nil {
			return err
		}
		end := up.held + int64(len(up.piece))
		req.Header.Set("Content-Range", fmt.Sprintf("%d-%d", up.held, end-1))
		resp, err := up.session.Do(req, http.StatusAccepted, http.StatusNoContent, http.StatusCreated)
		if err != nil {
			status := (*transport.Error)(nil)
			if !errors.As(err, &status) || status.StatusCode/100 != 4 || status.Temporary() {
				return err
			}
			// It does not take pieces, or not this one: it may have been busy with the rest of the request that was
			// cut when it said how much it has.
			up.refused++
			up.whole = up.refused == maxRefused || status.StatusCode != http.StatusRequestedRangeNotSatisfiable
			return fmt.Errorf("%w: %w", registry.ErrAgain, err)
		}
		resp.Body.Close()
		up.refused = 0
		if up.to, err = up.session.Upload(resp); err != nil {
			return err
		}
		if held, ok := parseRange(resp.Header.Get("Range")); ok && held > up.held && held < end {
			end = held // the rest of it goes with the next request
		}
		up.advance(ctx, end)
	}
	up.stream.Close()
	d, _ := up.stream.descriptor()
	if d.Size < up.held {
		up.whole = true
		return fmt.Errorf("%w: the registry says that it has more than was sent", registry.ErrAgain)
	}
	up.what = d
	return nil
}

// commit ends the upload under its digest, which the registry verifies.
func (up *upload) commit(ctx context.Context) error {
	err := commit(ctx, up.session, up.to, up.what)
	status := (*transport.Error)(nil)
	switch {
	case !errors.As(err, &status):
		return err
	case status.StatusCode == http.StatusNotFound:
		// The upload may be gone because an earlier commit went through and its answer was lost, or because the
		// registry forgot it when it restarted: the next attempt asks for the blob, and sends it again if it must.
		up.forget()
	case status.StatusCode/100 == 4 && up.held > 0:
		// What it had of the first request was something else, or it counts in another way.
		up.whole = true
	default:
		return err
	}
	return fmt.Errorf("%w: %w", registry.ErrAgain, err)
}

func commit(ctx context.Context, s *registry.Session, to *url.URL, d v1.Descriptor) error {
	at := *to
	q := at.Query()
	q.Set("digest", d.Digest.String())
	at.RawQuery = q.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, at.String(), nil)
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/octet-stream")
	resp, err := s.Do(req, http.StatusCreated, http.StatusNoContent)
	if err == nil {
		resp.Body.Close()
	}
	return err
}

// small uploads a blob that is held in memory, unless the registry has it.
func (u *uploader) small(ctx context.Context, d v1.Descriptor, content []byte) error {
	_, err := u.layer(ctx, Layer{Blob: &d, Open: func(context.Context) (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(content)), nil
	}}, nil, u.repo)
	return err
}

func hasBlob(ctx context.Context, s *registry.Session, d v1.Descriptor) (bool, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodHead, s.URL("blobs/"+d.Digest.String()), nil)
	if err != nil {
		return false, err
	}
	resp, err := s.Do(req, http.StatusOK, http.StatusNotFound, http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther,
		http.StatusTemporaryRedirect, http.StatusPermanentRedirect)
	if err != nil {
		return false, err
	}
	resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusNotFound:
		return false, nil
	case http.StatusOK:
		// A registry that says another length has a damaged blob, which uploading again mends.
		return resp.ContentLength < 0 || resp.ContentLength == d.Size, nil
	}
	return true, nil // a registry on object storage says where the blob is
}
