package local

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

// maxContent bounds the files that are read into a state. Stock tofu takes no greater answer of a provider.
const maxContent = 100 << 20

// fileData is the data source local_file or local_sensitive_file.
type fileData struct{ sensitive bool }

type fileDataModel struct {
	checksums
	Filename      types.String `tfsdk:"filename"`
	Content       types.String `tfsdk:"content"`
	ContentBase64 types.String `tfsdk:"content_base64"`
}

func (d fileData) Metadata(_ context.Context, req datasource.MetadataRequest, resp *datasource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_file"
	if d.sensitive {
		resp.TypeName = req.ProviderTypeName + "_sensitive_file"
	}
}

func (d fileData) Schema(_ context.Context, _ datasource.SchemaRequest, resp *datasource.SchemaResponse) {
	attrs := map[string]schema.Attribute{
		"filename": schema.StringAttribute{Required: true, MarkdownDescription: "The path of the file."},
		"content": schema.StringAttribute{Computed: true, Sensitive: d.sensitive,
			MarkdownDescription: "The content as text; bytes that aren't UTF-8 become the replacement character."},
		"content_base64": schema.StringAttribute{Computed: true, Sensitive: d.sensitive, MarkdownDescription: "The content in base64."},
	}
	for name, what := range checksumNames() {
		attrs[name] = schema.StringAttribute{Computed: true, MarkdownDescription: what}
	}
	what := "The content of a file."
	if d.sensitive {
		what = "The content of a file, which no output shows."
	}
	resp.Schema = schema.Schema{MarkdownDescription: what, Attributes: attrs}
}

func (fileData) Read(ctx context.Context, req datasource.ReadRequest, resp *datasource.ReadResponse) {
	var m fileDataModel
	resp.Diagnostics.Append(req.Config.Get(ctx, &m)...)
	if resp.Diagnostics.HasError() {
		return
	}
	if err := m.read(ctx); err != nil {
		resp.Diagnostics.AddError("Read local file data source error", fmt.Sprintf("The file %s can't be read: %s.", m.Filename.ValueString(), err))
		return
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, &m)...)
}

func (m *fileDataModel) read(ctx context.Context) error {
	f, err := os.Open(m.Filename.ValueString())
	if err != nil {
		return err
	}
	defer f.Close()
	tooLarge := fmt.Errorf("it has more than %d bytes, too many for a state", maxContent)
	if info, err := f.Stat(); err == nil && info.Size() > maxContent {
		return tooLarge
	}
	// What isn't a regular file tells no size.
	var content strings.Builder
	if m.checksums, err = copySums(ctx, &content, io.LimitReader(f, maxContent+1)); err != nil {
		return err
	}
	if content.Len() > maxContent {
		return tooLarge
	}
	m.Content = types.StringValue(content.String())
	m.ContentBase64 = types.StringValue(base64.StdEncoding.EncodeToString([]byte(content.String())))
	return nil
}
