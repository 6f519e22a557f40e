package local

import (
	"context"
	"crypto/sha1"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringdefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

// fileResource is local_file or local_sensitive_file.
type fileResource struct{ sensitive bool }

// file are the attributes that both have.
type file struct {
	checksums
	Filename            types.String `tfsdk:"filename"`
	Content             types.String `tfsdk:"content"`
	ContentBase64       types.String `tfsdk:"content_base64"`
	Source              types.String `tfsdk:"source"`
	FilePermission      types.String `tfsdk:"file_permission"`
	DirectoryPermission types.String `tfsdk:"directory_permission"`
}

// plainFile is local_file, which had a sensitive content before there was a local_sensitive_file.
type plainFile struct {
	file
	SensitiveContent types.String `tfsdk:"sensitive_content"`
}

func (r fileResource) Metadata(_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_file"
	if r.sensitive {
		resp.TypeName = req.ProviderTypeName + "_sensitive_file"
	}
}

func (r fileResource) Schema(_ context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	replace := []planmodifier.String{stringplanmodifier.RequiresReplace()}
	permission := "0777"
	if r.sensitive {
		permission = "0700"
	}
	attrs := map[string]schema.Attribute{
		"filename": schema.StringAttribute{Required: true, PlanModifiers: replace,
			MarkdownDescription: "The path of the file. Missing directories are made; a file that is there is replaced."},
		"content": schema.StringAttribute{Optional: true, Sensitive: r.sensitive, PlanModifiers: replace, MarkdownDescription: "The content as text."},
		"content_base64": schema.StringAttribute{Optional: true, Sensitive: r.sensitive, PlanModifiers: replace,
			MarkdownDescription: "The content in base64."},
		"source": schema.StringAttribute{Optional: true, PlanModifiers: replace, MarkdownDescription: "The path of a file that has the content."},
		"file_permission": schema.StringAttribute{Optional: true, Computed: true, Default: stringdefault.StaticString(permission), PlanModifiers: replace,
			MarkdownDescription: "The file's permissions before umask, in octal. Default is `" + permission + "`."},
		"directory_permission": schema.StringAttribute{Optional: true, Computed: true, Default: stringdefault.StaticString(permission), PlanModifiers: replace,
			MarkdownDescription: "The permissions of directories that are made, before umask, in octal. Default is `" + permission + "`."},
	}
	for name, what := range checksumNames() {
		attrs[name] = schema.StringAttribute{Computed: true, MarkdownDescription: what}
	}
	what := "A file with the given content, which no output shows."
	if !r.sensitive {
		what = "A file with the given content."
		attrs["sensitive_content"] = schema.StringAttribute{Optional: true, Sensitive: true, PlanModifiers: replace,
			MarkdownDescription: "The content as text that no output shows.", DeprecationMessage: "Use a local_sensitive_file and its content."}
	}
	resp.Schema = schema.Schema{MarkdownDescription: what, Attributes: attrs}
}

// get reads a configuration, plan or state of either resource.
func (r fileResource) get(ctx context.Context, from interface {
	Get(ctx context.Context, target any) diag.Diagnostics
}) (m plainFile, diags diag.Diagnostics) {
	m.SensitiveContent = types.StringNull()
	if r.sensitive {
		return m, from.Get(ctx, &m.file)
	}
	return m, from.Get(ctx, &m)
}

func (r fileResource) ValidateConfig(ctx context.Context, req resource.ValidateConfigRequest, resp *resource.ValidateConfigResponse) {
	m, diags := r.get(ctx, req.Config)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	names, set, unknown := []string{"content", "content_base64", "source"}, 0, false
	values := []types.String{m.Content, m.ContentBase64, m.Source}
	if !r.sensitive {
		names, values = append(names, "sensitive_content"), append(values, m.SensitiveContent)
	}
	for _, v := range values {
		unknown = unknown || v.IsUnknown()
		if !v.IsNull() && !v.IsUnknown() {
			set++
		}
	}
	if set > 1 || set == 0 && !unknown {
		resp.Diagnostics.AddError("Invalid Attribute Combination",
			fmt.Sprintf("Exactly one of %s must be set, and %d are.", strings.Join(names, ", "), set))
	}
	for _, p := range []struct {
		name  string
		value types.String
	}{{"file_permission", m.FilePermission}, {"directory_permission", m.DirectoryPermission}} {
		if p.value.IsNull() || p.value.IsUnknown() {
			continue
		}
		if _, err := permissions(p.value.ValueString()); err != nil {
			resp.Diagnostics.AddAttributeError(path.Root(p.name), "Invalid File Permission String Value", p.name+": "+err.Error()+".")
		}
	}
}

func (r fileResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	m, diags := r.get(ctx, req.Plan)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	if err := m.write(ctx); err != nil {
		resp.Diagnostics.AddError("Create local file error", fmt.Sprintf("The file %s can't be written: %s.", m.Filename.ValueString(), err))
		return
	}
	if r.sensitive {
		resp.Diagnostics.Append(resp.State.Set(ctx, &m.file)...)
		return
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, &m)...)
}

// write makes the file and sets the checksums. No error has a part of the content.
func (m *plainFile) write(ctx context.Context) error {
	filePerm, err := permissions(m.FilePermission.ValueString())
	if err != nil {
		return err
	}
	dirPerm, err := permissions(m.DirectoryPermission.ValueString())
	if err != nil {
		return err
	}
	var content io.Reader
	switch {
	case !m.Source.IsNull():
		f, err := os.Open(m.Source.ValueString())
		if err != nil {
			return fmt.Errorf("the source: %w", err)
		}
		defer f.Close()
		content = f
	case !m.ContentBase64.IsNull():
		// All of it is decoded before anything is written.
		b, err := base64.StdEncoding.DecodeString(m.ContentBase64.ValueString())
		if err != nil {
			return fmt.Errorf("content_base64: %w", err)
		}
		content = strings.NewReader(string(b))
	case !m.SensitiveContent.IsNull():
		content = strings.NewReader(m.SensitiveContent.ValueString())
	default:
		content = strings.NewReader(m.Content.ValueString())
	}
	m.checksums, err = write(ctx, m.Filename.ValueString(), content, filePerm, dirPerm)
	return err
}

// Read forgets a file that is gone or has another content: the next apply makes it again.
func (r fileResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	m, diags := r.get(ctx, req.State)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	same, err := m.unchanged(ctx)
	if err != nil {
		resp.Diagnostics.AddError("Read local file error", fmt.Sprintf("The file %s can't be read: %s.", m.Filename.ValueString(), err))
		return
	}
	if !same {
		resp.State.RemoveResource(ctx)
	}
}

func (m *plainFile) unchanged(ctx context.Context) (bool, error) {
	// Whatever is not a file isn't opened: a pipe would wait for its writer, a device may never end.
	info, err := os.Stat(m.Filename.ValueString())
	if err == nil && !info.Mode().IsRegular() {
		return false, fmt.Errorf("it is %s now", kind(info.Mode()))
	}
	var f *os.File
	if err == nil {
		f, err = os.Open(m.Filename.ValueString())
	}
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	sum := sha1.New()
	_, err = io.Copy(sum, reader{ctx, f})
	return hex.EncodeToString(sum.Sum(nil)) == m.ID.ValueString(), err
}

// Update has nothing to write: whatever changes a file replaces it.
func (fileResource) Update(_ context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	resp.State.Raw = req.Plan.Raw
}

// Delete removes the file; directories that were made stay, as others may use them.
func (r fileResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	m, diags := r.get(ctx, req.State)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	if err := os.Remove(m.Filename.ValueString()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		resp.Diagnostics.AddError("Delete local file error", fmt.Sprintf("The file %s can't be removed: %s.", m.Filename.ValueString(), err))
	}
}
