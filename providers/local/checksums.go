package local

import (
	"context"
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"io"

	"github.com/hashicorp/terraform-plugin-framework/types"
)

// checksums are the attributes that tell of a content; the id is the SHA-1.
type checksums struct {
	ID           types.String `tfsdk:"id"`
	MD5          types.String `tfsdk:"content_md5"`
	SHA1         types.String `tfsdk:"content_sha1"`
	SHA256       types.String `tfsdk:"content_sha256"`
	Base64SHA256 types.String `tfsdk:"content_base64sha256"`
	SHA512       types.String `tfsdk:"content_sha512"`
	Base64SHA512 types.String `tfsdk:"content_base64sha512"`
}

// checksumNames are the attributes of checksums with their descriptions.
func checksumNames() map[string]string {
	return map[string]string{
		"id":                   "The SHA-1 of the content in hexadecimal.",
		"content_md5":          "The MD5 of the content in hexadecimal.",
		"content_sha1":         "The SHA-1 of the content in hexadecimal.",
		"content_sha256":       "The SHA-256 of the content in hexadecimal.",
		"content_base64sha256": "The SHA-256 of the content in base64.",
		"content_sha512":       "The SHA-512 of the content in hexadecimal.",
		"content_base64sha512": "The SHA-512 of the content in base64.",
	}
}

// copySums copies r to w, of any size, and gives the checksums of what it copied.
func copySums(ctx context.Context, w io.Writer, r io.Reader) (checksums, error) {
	h5, h1, h256, h512 := md5.New(), sha1.New(), sha256.New(), sha512.New()
	if _, err := io.Copy(io.MultiWriter(w, h5, h1, h256, h512), reader{ctx, r}); err != nil {
		return checksums{}, err
	}
	hexed := func(b []byte) types.String { return types.StringValue(hex.EncodeToString(b)) }
	based := func(b []byte) types.String { return types.StringValue(base64.StdEncoding.EncodeToString(b)) }
	s1, s256, s512 := h1.Sum(nil), h256.Sum(nil), h512.Sum(nil)
	return checksums{
		ID: hexed(s1), MD5: hexed(h5.Sum(nil)), SHA1: hexed(s1), SHA256: hexed(s256), Base64SHA256: based(s256), SHA512: hexed(s512), Base64SHA512: based(s512),
	}, nil
}

// reader ends when its context does.
type reader struct {
	ctx context.Context
	r   io.Reader
}

func (r reader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.r.Read(p)
}
